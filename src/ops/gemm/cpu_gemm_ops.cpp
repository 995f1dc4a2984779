// Dense layers on the CPU: GEMMs by oneDNN, everything else by cpu_kernels in one pass over the result.
#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.h>
#include <memory>
#include <mutex>

#include "device/cpu_device.h"
#include "ops/cpu_kernels.h"
#include "ops/cpu_ops.h"
#include "ops/gemm/cpu_gemm.h"

namespace amdahl {
namespace {

class CpuGemmOps final : public GemmOps {
 public:
  CpuGemmOps() : kernels_(best_cpu_kernels()) {}

  void dense_forward(Stream& stream, const DenseForward& a) override {
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] {
      const CpuMatrix x = unaliased(worker, 0, {a.x, a.in}, a.batch, a.in, kAliasingActivations);
      multiply('N', 'T', a.batch, a.out, a.in, x, {a.w, a.in}, a.y, a.out, false);
      kernels_.finish_forward(a, a.dropout.p > 0 ? *a.dropout.step : 0);
    });
  }

  void dense_backward_input(Stream& stream, const DenseBackwardInput& a) override {
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] {
      CpuMatrix w{a.w, a.in};
      if (pads_weights(a.batch)) w = unaliased(worker, 0, w, a.out, a.in, kAliasingWeights);
      multiply('N', 'N', a.batch, a.in, a.out, {a.dy, a.out}, w, a.dx, a.in, false);
      kernels_.mask_and_column_sums(a);
    });
  }

  void dense_backward_weight(Stream& stream, const DenseBackwardWeight& a) override {
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] {
      const int64_t stride = a.dy_stride ? a.dy_stride : a.out;
      const CpuMatrix dy = unaliased(worker, 0, {a.dy, stride}, a.batch, a.out, kAliasingActivations);
      const CpuMatrix x = unaliased(worker, 1, {a.x, a.in}, a.batch, a.in, kAliasingActivations);
      multiply('T', 'N', a.out, a.in, a.batch, dy, x, a.dw, a.in, a.accumulate);
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
