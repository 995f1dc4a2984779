#include "ops/cuda_mask_probe.h"

#include <cmath>
#include <vector>

#include "base/philox.h"
#include "device/cuda_check.h"

namespace amdahl {
namespace {

// Widths that are not multiples of 128 reveal a wrong leading dimension; both are multiples of 4, as in real layers.
constexpr int64_t kBatch = 48, kIn = 200, kOut = 72;
constexpr float kScale = 1.25f;
constexpr double kTolerance = 2e-2;  // for bf16 GEMMs; a wrong mask gives errors of order 1

std::vector<float> random_floats(int64_t n, uint32_t stream) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = philox_uniform(philox(7, static_cast<uint32_t>(i), stream, 0, 0).v[0]) * 2.0f - 1.0f;
  return values;
}

/// Device memory with blocking copies: used once, before any measurement.
class ProbeArray {
 public:
  ProbeArray(CudaTuner& tuner, int device_index, size_t bytes)
      : tuner_(tuner), index_(device_index), bytes_(bytes), memory_(tuner, device_index, bytes) {}
  ProbeArray(CudaTuner& tuner, int device_index, const std::vector<float>& values)
      : ProbeArray(tuner, device_index, values.size() * sizeof(float)) {
    copy(memory_.data(), values.data(), cudaMemcpyHostToDevice);
  }
  float* data() const { return memory_.data(); }
  uint8_t* bytes() const { return reinterpret_cast<uint8_t*>(memory_.data()); }
  template <class T>
  std::vector<T> read() const {
    std::vector<T> values(bytes_ / sizeof(T));
    copy(values.data(), memory_.data(), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  void copy(void* destination, const void* source, cudaMemcpyKind kind) const {
    cuda_check(cudaMemcpyAsync(destination, source, bytes_, kind, tuner_.stream()), index_, "cudaMemcpyAsync");
    tuner_.synchronize();
  }
  CudaTuner& tuner_;
  int index_;
  size_t bytes_;
  TunerMemory memory_;
};

bool near(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(double{got[i]} - double{want[i]}, 2);
    norm += std::pow(double{want[i]}, 2);
  }
  return std::sqrt(error) <= kTolerance * std::sqrt(norm);  // false for NaN
}

class Probe {
 public:
  Probe(CudaTuner& tuner, CudaGemm& gemm, const KernelLaunch& launch, const GemmWorkspace& workspace)
      : tuner_(tuner), gemm_(gemm), launch_(launch), workspace_(workspace) {}

  bool forward() {
    const ProbeArray x(array(random_floats(kBatch * kIn, 1))), w(array(random_floats(kOut * kIn, 2))),
        bias(array(random_floats(kOut, 3)));
    const ProbeArray y(room(kBatch * kOut * 4)), mask(room(kBatch * mask_row_bits(kOut) / 8)),
        expected(room(kBatch * mask_row_bits(kOut) / 8));
    GemmCall call{{kOut, kBatch, kIn, true, false, Epilogue::relu_bias_mask, false}, w.data(), x.data(), y.data()};
    call.vector = bias.data();
    call.mask = mask.bytes();
    if (!run(call)) return false;
    launch_bias_relu(launch_, y.data(), nullptr, true, expected.bytes(), kBatch, kOut);
    return same_bits(mask.read<uint8_t>(), expected.read<uint8_t>());
  }

  bool backward() {
    const ProbeArray dy(array(random_floats(kBatch * kOut, 4))), w(array(random_floats(kOut * kIn, 5)));
    std::vector<float> activation = random_floats(kBatch * kIn, 6);
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
    call.mask = mask.bytes();
    return run(call) && near(dx.read<float>(), want_dx.read<float>()) &&
           near(sums.read<float>(), want_sums.read<float>());
  }

  bool weight_sums() {
    const ProbeArray x(array(random_floats(kBatch * kIn, 8))), dy(array(random_floats(kBatch * kOut, 9)));
    const ProbeArray dw(room(kOut * kIn * 4)), sums(room(kOut * 4)), want_dw(room(kOut * kIn * 4)),
        want_sums(room(kOut * 4));
    GemmCall call{{kIn, kOut, kBatch, false, true, Epilogue::none, false}, x.data(), dy.data(), want_dw.data()};
    if (!run(call)) return false;
    launch_mask_and_sum(launch_, {dy.data(), nullptr, nullptr, want_sums.data(), kBatch, kOut, false});
    call.problem.epilogue = Epilogue::sum_b;
    call.d = dw.data();
    call.vector = sums.data();
    return run(call) && near(dw.read<float>(), want_dw.read<float>()) &&
           near(sums.read<float>(), want_sums.read<float>());
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

/// If the library refuses to launch a problem that it proposed, the epilogue counts as missing.
template <class Test>
bool passes(const Test& test) {
  try {
    return test();
  } catch (const Error& error) {
    if (error.cause() == Cause::out_of_memory) throw;
    return false;
  }
}

}  // namespace

MaskSupport probe_masks(CudaTuner& tuner, CudaGemm& gemm, const KernelLaunch& launch, const GemmWorkspace& workspace) {
  Probe probe(tuner, gemm, launch, workspace);
  MaskSupport support;
  support.forward = passes([&] { return probe.forward(); });
  support.backward = passes([&] { return probe.backward(); });
  support.weight_sums = passes([&] { return probe.weight_sums(); });
  return support;
}

}  // namespace amdahl
