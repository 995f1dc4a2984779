// Dense layers on the CPU: GEMMs by oneDNN, everything else by cpu_kernels in one pass over the result.
#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.h>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "amdahl/units.h"
#include "device/cpu_device.h"
#include "ops/cpu_kernels.h"
#include "ops/cpu_ops.h"

namespace amdahl {
namespace {

// A row-major matrix with `stride` floats from one row to the next.
struct Matrix {
  const float* data;
  int64_t stride;
};

// c[M,N] = op(a) op(b) (+ c), op: the matrix ('N') or its transpose ('T'). Uses oneDNN's plain sgemm: a matmul
// primitive runs the same kernels but costs 1.5 us more per call, as much as a small layer.
void multiply(char op_a, char op_b, int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, float* c, bool accumulate) {
  if (m == 0 || n == 0) return;
  const dnnl_status_t status =
      dnnl_sgemm(op_a, op_b, m, n, k, 1.0f, a.data, a.stride, b.data, b.stride, accumulate ? 1.0f : 0.0f, c, n);
  if (status == dnnl_out_of_memory)
    throw Error(Cause::out_of_memory, fmt::format("oneDNN has no memory for a {} x {} x {} GEMM", m, n, k),
                "a smaller batch or model, or a higher limit of memory (ulimit -v)");
  if (status != dnnl_success)
    throw Error(Cause::internal,
                fmt::format("oneDNN refused a {} x {} x {} GEMM (status {})", m, n, k, static_cast<int>(status)));
}

// oneDNN generates its kernels in the first calls and crashes if it gets no memory for them. They are generated here,
// after a check that enough memory is available and before anything else allocates.
void make_gemm_kernels() {
  constexpr size_t kBytes = size_t{64} << 20;  // three times the memory of the kernels (oneDNN 2.7, AVX2 and AVX-512)
  void* room = std::malloc(kBytes);            // reserves addresses only; nothing is written
  std::free(room);
  if (!room)
    throw Error(Cause::out_of_memory, fmt::format("oneDNN's kernels need {}", format_bytes(double(kBytes))),
                "a higher limit of memory (ulimit -v)");
  constexpr int64_t kSizes[] = {1, 64};  // 1: vectors have kernels of their own
  const std::vector<float> a(64 * 64), b(64 * 64);
  std::vector<float> c(64 * 64);
  for (const char op_a : {'N', 'T'})
    for (const char op_b : {'N', 'T'})
      for (const int64_t m : kSizes)
        for (const int64_t n : kSizes)
          for (const bool accumulate : {false, true})
            multiply(op_a, op_b, m, n, 64, {a.data(), 64}, {b.data(), 64}, c.data(), accumulate);
}

// Rows that are a large power of two apart map to the same few cache sets, and oneDNN's kernels then run at 35 to 65 %
// of their speed. A copy with padded rows costs far less: always for activations; for weights within a range of batch
// sizes (below it the copy costs what it saves, above it oneDNN copies by itself).
constexpr int64_t kPadFloats = 16, kAliasingActivations = 128, kAliasingWeights = 512;
constexpr int64_t kFirstRowsWorthACopy = 16, kLastRowsWorthACopy = 767;

Matrix unaliased(CpuStream& stream, size_t slot, Matrix from, int64_t rows, int64_t columns, int64_t aliasing) {
  if (from.stride % aliasing != 0) return from;
  const int64_t stride = columns + kPadFloats;
  auto* copy = static_cast<float*>(stream.scratch(slot, static_cast<size_t>(rows * stride) * sizeof(float)));
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(copy + r * stride, from.data + r * from.stride, static_cast<size_t>(columns) * sizeof(float));
  return {copy, stride};
}

class CpuGemmOps final : public GemmOps {
 public:
  CpuGemmOps() : kernels_(best_cpu_kernels()) {}

  void dense_forward(Stream& stream, const DenseForward& a) override {
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] {
      const Matrix x = unaliased(worker, 0, {a.x, a.in}, a.batch, a.in, kAliasingActivations);
      multiply('N', 'T', a.batch, a.out, a.in, x, {a.w, a.in}, a.y, false);
      kernels_.finish_forward(a, a.dropout.p > 0 ? *a.dropout.step : 0);
    });
  }

  void dense_backward_input(Stream& stream, const DenseBackwardInput& a) override {
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] {
      Matrix w{a.w, a.in};
      if (a.batch >= kFirstRowsWorthACopy && a.batch <= kLastRowsWorthACopy)
        w = unaliased(worker, 0, w, a.out, a.in, kAliasingWeights);
      multiply('N', 'N', a.batch, a.in, a.out, {a.dy, a.out}, w, a.dx, false);
      kernels_.mask_and_column_sums(a);
    });
  }

  void dense_backward_weight(Stream& stream, const DenseBackwardWeight& a) override {
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] {
      const int64_t stride = a.dy_stride ? a.dy_stride : a.out;
      const Matrix dy = unaliased(worker, 0, {a.dy, stride}, a.batch, a.out, kAliasingActivations);
      const Matrix x = unaliased(worker, 1, {a.x, a.in}, a.batch, a.in, kAliasingActivations);
      multiply('T', 'N', a.out, a.in, a.batch, dy, x, a.dw, a.accumulate);
      if (a.dbias) kernels_.column_sums(a.dy, a.dbias, a.batch, a.out, stride, a.accumulate);
    });
  }

 private:
  const CpuKernels& kernels_;
};

}  // namespace

std::unique_ptr<GemmOps> make_cpu_gemm_ops() {
  static std::once_flag once;
  std::call_once(once, make_gemm_kernels);
  return std::make_unique<CpuGemmOps>();
}

Availability cpu_ops_availability() { return {true, {}, {}}; }

std::string cpu_ops_version() {
  const dnnl_version_t* v = dnnl_version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace amdahl
