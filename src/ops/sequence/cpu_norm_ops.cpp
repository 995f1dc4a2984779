// Layer normalisation and residual additions on the CPU.
#include "device/cpu_stream.h"
#include "ops/cpu_ops.h"

namespace amdahl {
namespace {

class CpuNormOps final : public NormOps {
 public:
  void layer_norm_forward(Stream& stream, const LayerNormForward& a) override {
    require_f32(a.type, "layer normalisation");
    require_f32(a.y_type, "layer normalisation");
    as_cpu(stream).enqueue([this, a] { kernels_.layer_norm_forward(a); });
  }
  void layer_norm_backward(Stream& stream, const LayerNormBackward& a) override {
    require_f32(a.type, "layer normalisation");
    require_f32(a.dy_type, "layer normalisation");
    as_cpu(stream).enqueue([this, a] { kernels_.layer_norm_backward(a); });
  }
  void residual_add(Stream& stream, const ResidualAdd& a) override {
    require_f32(a.type, "residual additions");
    as_cpu(stream).enqueue([this, a] { kernels_.add(a.x, static_cast<const float*>(a.delta), a.y, a.count); });
  }

 private:
  const CpuSequenceKernels& kernels_ = best_cpu_sequence_kernels();
};

}  // namespace

std::unique_ptr<NormOps> make_cpu_norm_ops() { return std::make_unique<CpuNormOps>(); }

}  // namespace amdahl
