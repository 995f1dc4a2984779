#include "ops/gemm/cuda_mask_probe.h"

#include <cmath>
#include <vector>

#include "ops/cuda_probe.h"

namespace amdahl {
namespace {

// Widths that are not multiples of 128 reveal a wrong leading dimension; both are multiples of 4, as in real layers.
constexpr int64_t kBatch = 48, kIn = 200, kOut = 72;
constexpr float kScale = 1.25f;

class Probe {
 public:
  Probe(CudaTuner& tuner, CudaGemm& gemm, const KernelLaunch& launch, const GemmWorkspace& workspace)
      : tuner_(tuner), gemm_(gemm), launch_(launch), workspace_(workspace) {}

  bool forward() {
    const ProbeArray x(array(probe_floats(kBatch * kIn, 1))), w(array(probe_floats(kOut * kIn, 2))),
        bias(array(probe_floats(kOut, 3)));
    const ProbeArray y(room(kBatch * kOut * 4)), mask(room(kBatch * mask_row_bits(kOut) / 8)),
        expected(room(kBatch * mask_row_bits(kOut) / 8));
    GemmCall call{{kOut, kBatch, kIn, true, false, Epilogue::relu_bias_mask, false}, w.data(), x.data(), y.data()};
    call.vector = bias.data();
    call.aux = mask.bytes();
    if (!run(call)) return false;
    launch_bias_relu(launch_, y.data(), nullptr, true, expected.bytes(), kBatch, kOut);
    return same_bits(mask.read<uint8_t>(), expected.read<uint8_t>());
  }

  bool backward() {
    const ProbeArray dy(array(probe_floats(kBatch * kOut, 4))), w(array(probe_floats(kOut * kIn, 5)));
    std::vector<float> activation = probe_floats(kBatch * kIn, 6);
    for (float& value : activation) value = std::fmax(value, 0.0f);
    const ProbeArray active(array(activation)), mask(room(kBatch * mask_row_bits(kIn) / 8));
    launch_bias_relu(launch_, active.data(), nullptr, false, mask.bytes(), kBatch, kIn);
    const ProbeArray dx(room(kBatch * kIn * 4)), sums(room(kIn * 4)), want_dx(room(kBatch * kIn * 4)),
        want_sums(room(kIn * 4));
    GemmCall call{
        {kIn, kBatch, kOut, false, false, Epilogue::none, false}, w.data(), dy.data(), want_dx.data(), kScale};
    if (!run(call)) return false;
    launch_mask_and_sum(launch_, {want_dx.data(), active.data(), nullptr, want_sums.data(), kBatch, kIn, false});
    call.problem.epilogue = Epilogue::masked_sum;
    call.d = dx.data();
    call.vector = sums.data();
    call.aux = mask.bytes();
    return run(call) && probe_agrees(dx.read<float>(), want_dx.read<float>()) &&
           probe_agrees(sums.read<float>(), want_sums.read<float>());
  }

  bool weight_sums() {
    const ProbeArray x(array(probe_floats(kBatch * kIn, 8))), dy(array(probe_floats(kBatch * kOut, 9)));
    const ProbeArray dw(room(kOut * kIn * 4)), sums(room(kOut * 4)), want_dw(room(kOut * kIn * 4)),
        want_sums(room(kOut * 4));
    GemmCall call{{kIn, kOut, kBatch, false, true, Epilogue::none, false}, x.data(), dy.data(), want_dw.data()};
    if (!run(call)) return false;
    launch_mask_and_sum(launch_, {dy.data(), nullptr, nullptr, want_sums.data(), kBatch, kOut, false});
    call.problem.epilogue = Epilogue::sum_b;
    call.d = dw.data();
    call.vector = sums.data();
    return run(call) && probe_agrees(dw.read<float>(), want_dw.read<float>()) &&
           probe_agrees(sums.read<float>(), want_sums.read<float>());
  }

 private:
  ProbeArray array(const std::vector<float>& values) { return ProbeArray(tuner_, launch_.device_index, values); }
  ProbeArray room(int64_t bytes) { return ProbeArray(tuner_, launch_.device_index, static_cast<size_t>(bytes)); }
  bool run(const GemmCall& call) {
    if (!gemm_.supports(call)) return false;
    gemm_.run(launch_, workspace_, call, false);
    return true;
  }
  static bool same_bits(const std::vector<uint8_t>& got, const std::vector<uint8_t>& want) {
    for (int64_t row = 0; row < kBatch; ++row)
      for (int64_t column = 0; column < kOut; ++column) {
        const int64_t bit = row * mask_row_bits(kOut) + column;
        if (((got[static_cast<size_t>(bit / 8)] ^ want[static_cast<size_t>(bit / 8)]) >> (bit % 8) & 1) != 0)
          return false;
      }
    return true;
  }

  CudaTuner& tuner_;
  CudaGemm& gemm_;
  const KernelLaunch& launch_;
  const GemmWorkspace& workspace_;
};

}  // namespace

MaskSupport probe_masks(CudaTuner& tuner, CudaGemm& gemm, const KernelLaunch& launch, const GemmWorkspace& workspace) {
  Probe probe(tuner, gemm, launch, workspace);
  MaskSupport support;
  support.forward = probe_passes([&] { return probe.forward(); });
  support.backward = probe_passes([&] { return probe.backward(); });
  support.weight_sums = probe_passes([&] { return probe.weight_sums(); });
  return support;
}

}  // namespace amdahl
