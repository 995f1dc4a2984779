// The functions of src/ops/cuda_instructions.cuh on the emulator.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda_builtins.h"

namespace amdahl {

struct MmaOperand {
  uint32_t a[4], b[2];
  float c[4];
};

/// Values of k pairs [0, kPerWord) of a word: two 16-bit elements, or one tf32.
template <class T>
inline void unpack_word(uint32_t word, float* values) {
  if constexpr (sizeof(T) == 4) {
    values[0] = __uint_as_float(word & 0xffffe000u);
  } else {
    for (int i = 0; i < 2; ++i) {
      const auto bits = static_cast<uint16_t>(word >> (16 * i));
      values[i] = std::is_same_v<T, __half> ? to_float(Half{bits}) : to_float(Bfloat{bits});
    }
  }
}

/// c[16,8] += A[16,8 words] B[8 words,8] of a warp.
template <class T>
void multiply_warp(const emulator::WarpOperands& warp) {
  constexpr int kPerWord = 4 / static_cast<int>(sizeof(T)), kDepth = 8 * kPerWord;
  float a[16][kDepth], b[kDepth][8], c[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<const MmaOperand*>(warp.in[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) unpack_word<T>(own.a[i], &a[g + 8 * (i % 2)][(t + 4 * (i / 2)) * kPerWord]);
    for (int i = 0; i < 2; ++i) {
      float values[2];
      unpack_word<T>(own.b[i], values);
      for (int e = 0; e < kPerWord; ++e) b[(t + 4 * i) * kPerWord + e][g] = values[e];
    }
    for (int i = 0; i < 4; ++i) c[g + 8 * (i / 2)][2 * t + i % 2] = own.c[i];
  }
  for (int row = 0; row < 16; ++row)
    for (int k = 0; k < kDepth; ++k)
      for (int column = 0; column < 8; ++column) c[row][column] += a[row][k] * b[k][column];
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      static_cast<float*>(warp.out[lane])[i] = c[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
}

template <class T>
void emulate_mma(const char* name, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const MmaOperand own{{a[0], a[1], a[2], a[3]}, {b0, b1}, {c[0], c[1], c[2], c[3]}};
  emulator::warp_instruction(name, &own, c, multiply_warp<T>);
}
inline void mma_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulate_mma<float>("mma_tf32", c, a, b0, b1);
}
template <class T>
void mma_half(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulate_mma<T>("mma_half", c, a, b0, b1);
}

template <class T>
uint32_t pack_pair(float low, float high) {
  const auto bits = [](float value) -> uint32_t {
    return std::is_same_v<T, __half> ? to_half(value).bits : to_bfloat(value).bits;
  };
  return bits(low) | bits(high) << 16;
}

template <bool kTransposed>
void load_warp_matrices(const emulator::WarpOperands& warp) {
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int g = lane / 4, t = lane % 4;
      const auto element = [&](int row, int column) -> uint32_t {
        return static_cast<const uint16_t*>(warp.in[8 * i + row])[column];
      };
      const uint32_t low = kTransposed ? element(2 * t, g) : element(g, 2 * t),
                     high = kTransposed ? element(2 * t + 1, g) : element(g, 2 * t + 1);
      static_cast<uint32_t*>(warp.out[lane])[i] = low | high << 16;
    }
}
inline void load_matrices(uint32_t (&r)[4], const void* row) {
  emulator::check_shared(row, 16);
  emulator::warp_instruction("load_matrices", row, r, load_warp_matrices<false>);
}
inline void load_transposed(uint32_t (&r)[4], const void* row) {
  emulator::check_shared(row, 16);
  emulator::warp_instruction("load_transposed", row, r, load_warp_matrices<true>);
}

inline float fast_exp2(float x) {
  const float result = std::exp2(x);
  return result < 0x1p-126f ? 0.0f : result;
}

inline void copy16(void* to, const void* from, bool inside) { emulator::start_copy(to, inside ? from : nullptr, 16); }
inline void copy4(void* to, const void* from, bool inside) { emulator::start_copy(to, inside ? from : nullptr, 4); }
inline void commit_copies() { emulator::commit_copies(); }
template <int kPending>
void wait_for_copies() {
  emulator::wait_for_copies(kPending);
}

struct ClusterPlace {
  int rank, size;
};
inline ClusterPlace cluster_place() { return {emulator::cluster_rank(), emulator::cluster_size()}; }
inline void arrive_at_peers() { emulator::arrive_at_cluster(); }
inline void wait_for_peers() { emulator::wait_for_cluster(); }
template <class T>
T* peer_pointer(T* pointer, int rank) {
  return reinterpret_cast<T*>(emulator::in_block(pointer, rank));
}

}  // namespace amdahl
