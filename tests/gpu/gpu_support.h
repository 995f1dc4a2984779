// A GPU with a stream and ops for tests, host copies, and comparisons. Tests skip, saying why, where there is no GPU.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/ops.h"

namespace amdahl {

inline std::vector<float> random_floats(int64_t n, uint32_t seed, float low = -1.0f, float high = 1.0f) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = uniform(engine);
  return values;
}

/// ||got - want|| / ||want||; infinite when anything is not finite.
inline double relative_error(const std::vector<float>& got, const std::vector<double>& want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (!std::isfinite(got[i])) return std::numeric_limits<double>::infinity();
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return norm == 0 ? std::sqrt(error) : std::sqrt(error / norm);
}

/// Device memory of T's, poisoned with NaN bytes or filled from the host. `skip` elements shift its alignment.
template <class T>
class GpuArray {
 public:
  GpuArray(Device& device, Stream& stream, int64_t n, int64_t skip = 0)
      : device_(device),
        stream_(stream),
        n_(n),
        skip_(skip),
        buffer_(device.allocate(static_cast<size_t>(n + skip) * sizeof(T))) {
    set_bytes(std::vector<unsigned char>(static_cast<size_t>(n) * sizeof(T), 0xff));
  }
  GpuArray(Device& device, Stream& stream, const std::vector<T>& values, int64_t skip = 0)
      : GpuArray(device, stream, static_cast<int64_t>(values.size()), skip) {
    set(values);
  }
  T* data() { return buffer_->as<T>() + skip_; }
  void set(const std::vector<T>& values) {
    device_.copy_in(stream_, data(), values.data(), values.size() * sizeof(T));
    stream_.synchronize(Deadline::after_seconds(60));
  }
  std::vector<T> get() {
    std::vector<T> values(static_cast<size_t>(n_));
    device_.copy_out(stream_, values.data(), data(), values.size() * sizeof(T));
    stream_.synchronize(Deadline::after_seconds(60));
    return values;
  }

 private:
  void set_bytes(const std::vector<unsigned char>& bytes) {
    device_.copy_in(stream_, data(), bytes.data(), bytes.size());
    stream_.synchronize(Deadline::after_seconds(60));
  }
  Device& device_;
  Stream& stream_;
  int64_t n_, skip_;
  std::unique_ptr<Buffer> buffer_;
};

class GpuTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Availability availability = cuda_availability();
    if (!availability.ok) GTEST_SKIP() << availability.reason;
    device = std::move(make_cuda_devices({0}).front());
    stream = device->make_stream("compute");
  }
  GpuArray<float> floats(const std::vector<float>& values, int64_t skip = 0) {
    return {*device, *stream, values, skip};
  }
  GpuArray<float> floats(int64_t n, int64_t skip = 0) { return {*device, *stream, n, skip}; }
  void finish() { stream->synchronize(Deadline::after_seconds(60)); }

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
};

}  // namespace amdahl
