// The GPU that a comparison of sensor operations runs on, with random inputs and what its Records say of it.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "base/small_floats.h"
#include "device/cuda_device.h"
#include "sensor/ops/sensor_ops.h"
#include "setup/provenance.h"

namespace amdahl {

inline constexpr uint64_t kSeed = 42;

/// Commit, host, GPU, driver and libraries; and whose kernels the other side's are.
inline Provenance provenance_of(const Device& device) {
  EngineConfig engine;
  engine.seed = kSeed;
  Provenance provenance = make_provenance(engine, "cuda", {device.spec()});
  for (const char* of_models : {"math", "cache", "launch", "deterministic", "processes"})
    provenance.facts.erase(of_models);
  provenance.facts["peer"] = "RoboCache";
  provenance.facts["peer.commit"] = AMDAHL_ROBOCACHE_COMMIT;
  return provenance;
}

inline Deadline soon() { return Deadline::after_seconds(60); }

struct Machine {
  std::unique_ptr<Device> device = std::move(make_cuda_devices({0}).front());
  std::unique_ptr<Stream> stream = (device->bind_thread(), device->make_stream("bench"));
  std::unique_ptr<SensorOps> ops = make_cuda_sensor_ops(*device);
  Provenance provenance = provenance_of(*device);
  std::mt19937_64 random{kSeed};
  cudaStream_t handle() const { return as_cuda(*stream); }

  std::unique_ptr<Buffer> put(const std::vector<float>& host, DType type = DType::f32) {
    std::unique_ptr<Buffer> buffer = device->allocate(std::max<size_t>(host.size(), 1) * size_of(type));
    std::vector<Bfloat> small;
    const void* from = host.data();
    if (type == DType::bf16) {
      for (const float value : host) small.push_back(to_bfloat(value));
      from = small.data();
    }
    device->copy_in(*stream, buffer->data(), from, host.size() * size_of(type));
    stream->synchronize(soon());
    return buffer;
  }
  std::vector<char> take(Buffer& buffer) {
    std::vector<char> host(buffer.bytes());
    device->copy_out(*stream, host.data(), buffer.data(), buffer.bytes());
    stream->synchronize(soon());
    return host;
  }
  std::vector<float> normal(size_t count) {
    std::vector<float> values(count);
    std::normal_distribution<float> draw;
    std::vector<float> pool(1 << 20);  // drawing each of a billion would take longer than the measurement
    for (float& value : pool) value = draw(random);
    for (size_t i = 0; i < count; ++i) values[i] = pool[(i * 2654435761u) >> 5 & (pool.size() - 1)];
    return values;
  }
};

}  // namespace amdahl
