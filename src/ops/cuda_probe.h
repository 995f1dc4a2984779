// Parts of the checks of cuBLASLt's epilogues: small random arrays on the device, and comparison of results.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <vector>

#include "amdahl/error.h"
#include "base/philox.h"
#include "device/cuda_check.h"
#include "ops/gemm/cuda_tuner.h"

namespace amdahl {

inline constexpr double kProbeTolerance = 2e-2;

/// Uniform in [-1, 1).
inline std::vector<float> probe_floats(int64_t n, uint32_t stream) {
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
  template <class T>
  ProbeArray(CudaTuner& tuner, int device_index, const std::vector<T>& values)
      : ProbeArray(tuner, device_index, values.size() * sizeof(T)) {
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

/// Whether two results of a small GEMM agree within the error of bf16 operands; a wrong epilogue gives errors of
/// order 1.
inline bool probe_agrees(const std::vector<float>& got, const std::vector<float>& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += std::pow(double{got[i]} - double{want[i]}, 2);
    norm += std::pow(double{want[i]}, 2);
  }
  return std::sqrt(error) <= kProbeTolerance * std::sqrt(norm);  // false for NaN
}

/// If the library refuses to launch a problem that it proposed, the epilogue counts as missing.
template <class Test>
bool probe_passes(const Test& test) {
  try {
    return test();
  } catch (const Error& error) {
    if (error.cause() == Cause::out_of_memory) throw;
    return false;
  }
}

}  // namespace amdahl
