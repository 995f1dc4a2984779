// Cells of a bin's voxels in shared memory, without values, and how they are written to the grid.
#pragma once

#include <type_traits>

#include "sensor/ops/voxels/cuda_voxel_bytes.cuh"

namespace amdahl::sensor_cuda {

// Cells: a mark or a count per voxel. Points are added by a pointer or, for entries that may not exist, by a 32-bit
// address. kNowhereBytes: bytes behind the cells for entries that do not exist, which all lanes may write at once.

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

template <int kThreads>
__device__ __forceinline__ void clear_cells(uint4* memory, uint32_t bytes) {
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < bytes / sizeof(uint4); i += kThreads) memory[i] = make_uint4(0, 0, 0, 0);
  __syncthreads();
}

/// The values of four voxels from `cells` on.
__device__ __forceinline__ int4 four_voxels(const uint32_t* cells) { return *reinterpret_cast<const int4*>(cells); }
__device__ __forceinline__ int4 four_voxels(const uint8_t* cells) {
  const uint32_t word = *reinterpret_cast<const uint32_t*>(cells);
  return make_int4(word & 1, word >> 8 & 1, word >> 16 & 1, word >> 24);
}

/// The mask word of 32 marks.
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

/// Writes a bin's voxels: numbers or bytes of four voxels at once, or a mask word of 32.
template <Form kForm, int kThreads, class Cell>
__device__ __forceinline__ void write_cells(const BinArgs& bins, uint32_t bin, const Cell* cells, const ByteArgs& bytes,
                                            void* output) {
  constexpr uint32_t kVoxels = kForm == Form::mask ? 32 : 4;
  auto* grid = static_cast<int32_t*>(output) + bins.first_voxel;
  auto* mask = static_cast<uint32_t*>(output) + bins.first_voxel / 32;
  const bool aligned = reinterpret_cast<uintptr_t>(grid) % sizeof(int4) == 0;
  const auto num_voxels = static_cast<uint32_t>(bins.num_voxels);
#pragma unroll 4
  for (uint32_t offset = threadIdx.x * kVoxels; offset < bins.bin_voxels(); offset += kThreads * kVoxels) {
    const uint32_t voxel = voxel_of(bins, bin, offset);
    if (voxel >= num_voxels) continue;
    if constexpr (kForm == Form::numbers) {
      write_numbers(four_voxels(cells + offset), voxel, num_voxels, aligned, grid);
    } else if constexpr (kForm == Form::mask) {
      mask[voxel / 32] = mask_word(cells + offset);
    } else {
      const int4 four = four_voxels(cells + offset);
      const int counts[4] = {four.x, four.y, four.z, four.w};
      const int64_t first = bins.first_voxel + voxel;
      uint32_t word = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k) word |= bytes.limit(static_cast<uint32_t>(counts[k]), first + k) << (8 * k);
      __stcs(reinterpret_cast<uint32_t*>(bytes.byte_of(output, first)), word);
    }
  }
}

/// Launches a second step that has two blocks per SM. kernel_of(cells, form) returns the kernel for these types.
template <class KernelOf>
void launch_cells(const SensorLaunch& launch, const VoxelizeProblem& problem, const BinArgs& bins, unsigned threads,
                  const char* name, const KernelOf& kernel_of) {
  const auto launch_as = [&](auto cells, auto form) {
    auto* kernel = kernel_of(cells, form);
    const size_t shared = bins.bin_voxels() * sizeof(typename decltype(cells)::Cell) + decltype(cells)::kNowhereBytes;
    launch_early(launch, second_step_blocks(launch, bins), threads, shared, kernel, name, bins, ByteArgs::of(problem),
                 problem.output);
  };
  if (problem.most_in_byte > 0) return launch_as(Counts{}, std::integral_constant<Form, Form::bytes>{});
  if (problem.options.mode == VoxelMode::count)
    return launch_as(Counts{}, std::integral_constant<Form, Form::numbers>{});
  if (problem.options.mode == VoxelMode::occupancy)
    return launch_as(Marks{}, std::integral_constant<Form, Form::numbers>{});
  launch_as(Marks{}, std::integral_constant<Form, Form::mask>{});
}

}  // namespace amdahl::sensor_cuda
