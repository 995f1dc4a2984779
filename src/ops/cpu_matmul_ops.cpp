// Matrix products with an epilogue on the CPU: GEMMs by oneDNN, the epilogue by cpu_sequence_kernels in one pass over
// the result.
#include <fmt/format.h>

#include <cstring>

#include "ops/cpu_gemm.h"
#include "ops/cpu_ops.h"

namespace amdahl {
namespace {

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

 private:
  void run(CpuStream& worker, const MatMul& a) {
    const CpuMatrix stored_a{static_cast<const float*>(a.a), a.stride_a ? a.stride_a : a.transpose_a ? a.m : a.k};
    const CpuMatrix stored_b{static_cast<const float*>(a.b), a.stride_b ? a.stride_b : a.transpose_b ? a.k : a.n};
    const int64_t stride = a.stride_c ? a.stride_c : a.n;
    auto* c = static_cast<float*>(a.c);
    // The same choice of copies as for dense layers: forward, gradient of the input, gradient of the weight.
    CpuMatrix left = stored_a, right = stored_b;
    if (a.transpose_a || a.transpose_b)
      left = unaliased(worker, 0, stored_a, a.transpose_a ? a.k : a.m, a.transpose_a ? a.m : a.k, kAliasingActivations);
    if (a.transpose_a && !a.transpose_b)
      right = unaliased(worker, 1, stored_b, a.k, a.n, kAliasingActivations);
    else if (!a.transpose_b && a.m >= kFirstRowsWorthACopy && a.m <= kLastRowsWorthACopy)
      right = unaliased(worker, 1, stored_b, a.k, a.n, kAliasingWeights);
    const auto product = [&](float* to, int64_t stride_to) {
      multiply(a.transpose_a ? 'T' : 'N', a.transpose_b ? 'T' : 'N', a.m, a.n, a.k, left, right, to, stride_to,
               a.accumulate);
    };
    const auto* bias = static_cast<const float*>(a.bias);
    auto* aux = static_cast<float*>(a.aux);
    switch (a.epilogue) {
      case MatMulEpilogue::none:
        return product(c, stride);
      case MatMulEpilogue::bias:
        product(c, stride);
        return kernels_.add_bias(c, bias, a.m, a.n, stride);
      case MatMulEpilogue::bias_gelu:
        product(aux, a.n);
        return kernels_.bias_gelu(aux, bias, c, a.m, a.n, stride);
      case MatMulEpilogue::gelu_gradient:
        product(c, stride);
        if (a.dbias && !a.accumulate_dbias) std::memset(a.dbias, 0, static_cast<size_t>(a.n) * sizeof(float));
        return kernels_.gelu_gradient(c, aux, a.dbias, a.m, a.n, stride);
      case MatMulEpilogue::sum_rows_of_a:
        product(c, stride);
        if (!a.dbias) return;
        if (a.transpose_a)
          dense_.column_sums(stored_a.data, a.dbias, a.k, a.m, stored_a.stride, a.accumulate_dbias);
        else
          kernels_.row_sums(stored_a.data, a.dbias, a.m, a.k, stored_a.stride, a.accumulate_dbias);
        return;
    }
  }

  const CpuKernels& dense_ = best_cpu_kernels();
  const CpuSequenceKernels& kernels_ = best_cpu_sequence_kernels();
};

}  // namespace

std::unique_ptr<MatMulOps> make_cpu_matmul_ops() { return std::make_unique<CpuMatMulOps>(); }

}  // namespace amdahl
