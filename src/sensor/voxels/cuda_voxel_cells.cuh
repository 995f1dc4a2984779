// What a block keeps of a bin's voxels in shared memory where there are no values, and how it is written.
#pragma once

#include <type_traits>

#include "sensor/voxels/cuda_voxel_bytes.cuh"

namespace amdahl::sensor_cuda {

// What a block keeps of a voxel: whether there are points, or how many. Points are added by pointer, or by an address
// in shared memory, which takes less for entries that may not be there and more for many in one voxel. And how many
// bytes there are for what is nowhere: one may be set by all lanes at once.

struct Marks {
  using Cell = uint8_t;
  static constexpr uint32_t kNowhereBytes = sizeof(uint32_t);
  __device__ static void add(Cell* cell) { *cell = 1; }
  __device__ static void add(uint32_t cell) { asm volatile("st.shared.u8 [%0], %1;" ::"r"(cell), "r"(1) : "memory"); }
};
struct Counts {
  using Cell = uint32_t;
  static constexpr uint32_t kNowhereBytes = 32 * sizeof(uint32_t);
  __device__ static void add(Cell* cell) { atomicAdd(cell, 1u); }
  __device__ static void add(uint32_t cell) { add_at(cell, 1); }
};

/// Four voxels of the grid, from `cells` on.
__device__ __forceinline__ int4 four_voxels(const uint32_t* cells) { return *reinterpret_cast<const int4*>(cells); }
__device__ __forceinline__ int4 four_voxels(const uint8_t* cells) {
  const uint32_t word = *reinterpret_cast<const uint32_t*>(cells);
  return make_int4(word & 1, word >> 8 & 1, word >> 16 & 1, word >> 24);
}

/// Of 32 marks.
__device__ __forceinline__ uint32_t mask_word(const uint8_t* cells) {
  constexpr uint32_t kGather = 1u << 24 | 1u << 17 | 1u << 10 | 1u << 3;  // bits 0, 8, 16 and 24 to 24, 25, 26 and 27
  uint32_t word = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint4 part = reinterpret_cast<const uint4*>(cells)[half];
    const uint32_t fours[4] = {part.x, part.y, part.z, part.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) word |= (fours[i] * kGather >> 24) << (16 * half + 4 * i);
  }
  return word;
}

/// Writes counts as bytes, four voxels at once; the output has whole words.
template <int kThreads>
__device__ void write_bytes(const BinArgs& bins, uint32_t bin, const uint32_t* cells, const ByteArgs& args,
                            void* output) {
  for (uint32_t offset = threadIdx.x * 4; offset < bins.bin_voxels(); offset += kThreads * 4) {
    const uint32_t voxel = voxel_of(bins, bin, offset);
    if (voxel >= bins.num_voxels) continue;
    const int4 four = four_voxels(cells + offset);
    const int counts[4] = {four.x, four.y, four.z, four.w};
    const int64_t first = bins.first_voxel + voxel;
    uint32_t word = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) word |= args.limit(static_cast<uint32_t>(counts[k]), first + k) << (8 * k);
    __stcs(reinterpret_cast<uint32_t*>(args.byte_of(output, first)), word);
  }
}

/// Writes 32 voxels' bits at once.
template <int kThreads>
__device__ void write_mask(const BinArgs& bins, uint32_t bin, const uint8_t* cells, void* output) {
  auto* mask = static_cast<uint32_t*>(output) + bins.first_voxel / 32;
  for (uint32_t offset = threadIdx.x * 32; offset < bins.bin_voxels(); offset += kThreads * 32) {
    const uint32_t voxel = voxel_of(bins, bin, offset);
    if (voxel < bins.num_voxels) mask[voxel / 32] = mask_word(cells + offset);
  }
}

/// Writes a bin's numbers, of counts or marks.
template <int kThreads, class Cell>
__device__ void write_bin(const BinArgs& bins, uint32_t bin, const Cell* cells, void* output) {
  auto* grid = static_cast<int32_t*>(output) + bins.first_voxel;
  const bool aligned = reinterpret_cast<uintptr_t>(grid) % sizeof(int4) == 0,
             whole = aligned && bins.num_voxels % 4 == 0;
  const auto num_voxels = static_cast<uint32_t>(bins.num_voxels);
  constexpr uint32_t kStep = kThreads * 4, kAtOnce = 4;
#pragma unroll 1
  for (uint32_t first = threadIdx.x * 4; first < bins.bin_voxels(); first += kAtOnce * kStep) {
    int4 fours[kAtOnce];
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; ++k)
      if (first + k * kStep < bins.bin_voxels()) fours[k] = four_voxels(cells + first + k * kStep);
#pragma unroll
    for (uint32_t k = 0; k < kAtOnce; ++k) {
      if (first + k * kStep >= bins.bin_voxels()) break;
      const uint32_t voxel = voxel_of(bins, bin, first + k * kStep);
      if (!whole)
        write_numbers(fours[k], voxel, num_voxels, aligned, grid);
      else if (voxel < num_voxels)
        __stcs(reinterpret_cast<int4*>(grid + voxel), fours[k]);
    }
  }
}

enum class Form { numbers, bytes, mask };

template <Form kForm, int kThreads, class Cell>
__device__ __forceinline__ void write(const BinArgs& bins, uint32_t bin, const Cell* cells, const ByteArgs& bytes,
                                      void* output) {
  if constexpr (kForm == Form::bytes)
    write_bytes<kThreads>(bins, bin, cells, bytes, output);
  else if constexpr (kForm == Form::mask)
    write_mask<kThreads>(bins, bin, cells, output);
  else
    write_bin<kThreads>(bins, bin, cells, output);
}

}  // namespace amdahl::sensor_cuda
