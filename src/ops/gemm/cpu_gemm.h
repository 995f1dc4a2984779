// Matrix products of f32 on the calling thread by oneDNN, for the CPU families that are made of them. Only in a build
// with oneDNN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cpu_stream.h"
#include "ops/cpu_scratch.h"

namespace amdahl {

/// A row-major matrix with `stride` floats from one row to the next.
struct CpuMatrix {
  const float* data;
  int64_t stride;
};

/// c[m,n] = op(a) op(b) (+ c), op: the matrix ('N') or its transpose ('T'); rows of c are `stride_c` floats apart.
/// Throws Error{out_of_memory} when oneDNN gets no memory, Error{internal} when it refuses the product.
void multiply(char op_a, char op_b, int64_t m, int64_t n, int64_t k, CpuMatrix a, CpuMatrix b, float* c,
              int64_t stride_c, bool accumulate);

/// `from` [rows, columns], or a copy of it in the stream's scratch memory `slot` when its rows are a multiple of
/// `aliasing` floats apart. Worker thread only.
CpuMatrix unaliased(CpuStream& stream, size_t slot, CpuMatrix from, int64_t rows, int64_t columns, int64_t aliasing);

/// Generates oneDNN's kernels, which crashes without memory: to be called once, before anything else allocates. Throws
/// Error{out_of_memory}.
void make_gemm_kernels();

}  // namespace amdahl
