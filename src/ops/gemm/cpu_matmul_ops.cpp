// Matrix products with an epilogue on the CPU: GEMMs by oneDNN, the epilogue by cpu_sequence_kernels in one pass over
// the result.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ops/cpu_ops.h"
#include "ops/gemm/cpu_gemm.h"

namespace amdahl {
namespace {

constexpr int64_t kTermsOfABlock = 512;  // of a sum

/// Rows or columns of a result, or terms of its sums.
struct Range {
  int64_t first, count;
};

/// Calls body(Range) for [0, total) in ranges of `size`.
template <class Body>
void for_each_range(int64_t total, int64_t size, const Body& body) {
  for (int64_t first = 0; first < total; first += size) body(Range{first, std::min(size, total - first)});
}

size_t bytes_of(int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); }

class CpuMatMulOps final : public MatMulOps {
 public:
  void matmul(Stream& stream, const MatMul& a) override {
    require_f32(a.type, "matrix products");
    require_f32(a.c_type, "matrix products");
    if (a.accumulate && a.epilogue != MatMulEpilogue::none && a.epilogue != MatMulEpilogue::sum_rows_of_a)
      throw Error(Cause::internal, "a matrix product with this epilogue cannot be accumulated");
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] { run(worker, a); });
  }

  void convert(Stream& stream, const float* from, void* to, DType type, int64_t count) override {
    require_f32(type, "conversion");
    as_cpu(stream).enqueue([=] {
      if (to != from) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
    });
  }

  void column_sums(Stream& stream, const void* x, DType type, float* out, int64_t rows, int64_t width,
                   bool accumulate) override {
    require_f32(type, "column sums");
    as_cpu(stream).enqueue(
        [=, this] { dense_.column_sums(static_cast<const float*>(x), out, rows, width, width, accumulate); });
  }
  void activate(Stream& stream, const Activate& a) override {
    require_f32(a.type, "activations");
    as_cpu(stream).enqueue([this, a] { kernels_.activate(a); });
  }
  void activate_gradient(Stream& stream, const ActivateGradient& a) override {
    require_f32(a.type, "activations");
    as_cpu(stream).enqueue([this, a] { kernels_.activate_gradient(a); });
  }

 private:
  void run(CpuStream& worker, MatMul a) {
    if (a.stride_a == 0) a.stride_a = a.transpose_a ? a.m : a.k;
    if (a.stride_b == 0) a.stride_b = a.transpose_b ? a.k : a.n;
    if (a.stride_c == 0) a.stride_c = a.n;
    const bool sums_rows = a.epilogue == MatMulEpilogue::sum_rows_of_a;
    if (a.dbias && !a.accumulate_dbias) std::memset(a.dbias, 0, bytes_of(sums_rows ? a.m : a.n));
    if (a.transpose_a)
      add_up_terms(a);
    else
      for_each_range(a.n, kColumnsOfABlock, [&](Range columns) { multiply_columns(worker, a, columns); });
  }

  // Adds up one range of terms after the other: the gradient of a weight, whose terms are many.
  void add_up_terms(const MatMul& a) {
    auto* c = static_cast<float*>(a.c);
    for_each_range(a.k, kTermsOfABlock, [&](Range terms) {
      const float* left = static_cast<const float*>(a.a) + terms.first * a.stride_a;
      const float* right = static_cast<const float*>(a.b) + terms.first * (a.transpose_b ? 1 : a.stride_b);
      multiply('T', a.transpose_b ? 'T' : 'N', a.m, a.n, terms.count, {left, a.stride_a}, {right, a.stride_b}, c,
               a.stride_c, a.accumulate || terms.first > 0);
      if (a.epilogue == MatMulEpilogue::sum_rows_of_a && a.dbias)
        dense_.column_sums(left, a.dbias, terms.count, a.m, a.stride_a, true);
    });
    finish(a, c, a.stride_c, {0, a.m}, {0, a.n});
  }

  // Some columns of all rows, a block of rows after the other.
  void multiply_columns(CpuStream& worker, const MatMul& a, Range columns) {
    const bool has_pass = has_block(a);
    const int64_t size = rows_of_a_block(columns.count);
    const float* right = static_cast<const float*>(a.b) + columns.first * (a.transpose_b ? a.stride_b : 1);
    CpuMatrix b{right, a.stride_b};
    char op_b = a.transpose_b ? 'T' : 'N';
    if (transposes_right(a)) {
      const int64_t stride = columns.count + kPadFloats;
      auto* copy = static_cast<float*>(worker.scratch(1, bytes_of(a.k * stride)));
      kernels_.transpose({right, a.stride_b, copy, stride, columns.count, a.k});
      b = {copy, stride};
      op_b = 'N';
    }
    float* block = nullptr;
    if (has_pass) block = static_cast<float*>(worker.scratch(0, bytes_of(std::min(size, a.m) * columns.count)));
    for_each_range(a.m, size, [&](Range rows) {
      const float* left = static_cast<const float*>(a.a) + rows.first * a.stride_a;
      float* to = has_pass ? block : static_cast<float*>(a.c) + rows.first * a.stride_c + columns.first;
      const int64_t stride = has_pass ? columns.count : a.stride_c;
      multiply('N', op_b, rows.count, columns.count, a.k, {left, a.stride_a}, b, to, stride, a.accumulate);
      if (a.epilogue == MatMulEpilogue::sum_rows_of_a && a.dbias && columns.first == 0)
        kernels_.row_sums(left, a.dbias + rows.first, rows.count, a.k, a.stride_a, true);
      finish(a, to, stride, rows, columns);
    });
  }

  void finish(const MatMul& a, const float* product, int64_t stride, Range rows, Range columns) {
    Epilogue e;
    e.product = product;
    e.stride_product = stride;
    e.c = static_cast<float*>(a.c) + rows.first * a.stride_c + columns.first;
    e.stride_c = a.stride_c;
    if (a.aux) e.aux = static_cast<float*>(a.aux) + rows.first * a.n + columns.first;
    e.stride_aux = a.n;
    if (a.bias) e.bias = static_cast<const float*>(a.bias) + columns.first;
    if (a.dbias) e.dbias = a.dbias + columns.first;
    e.rows = rows.count;
    e.width = columns.count;
    if (a.epilogue == MatMulEpilogue::bias) kernels_.add_bias(e);
    if (a.epilogue == MatMulEpilogue::bias_gelu) kernels_.bias_gelu(e);
    if (a.epilogue == MatMulEpilogue::gelu_gradient) kernels_.gelu_gradient(e);
  }

  const CpuKernels& dense_ = best_cpu_kernels();
  const CpuSequenceKernels& kernels_ = best_cpu_sequence_kernels();
};

}  // namespace

std::unique_ptr<MatMulOps> make_cpu_matmul_ops() { return std::make_unique<CpuMatMulOps>(); }

}  // namespace amdahl
