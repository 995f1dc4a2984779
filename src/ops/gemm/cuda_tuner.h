// Times alternatives of one piece of device work, to choose the fastest once per problem.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>

namespace amdahl {

/// Lets this thread allocate and synchronize while one of its streams is being captured, for the object's lifetime.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// Works on a stream of its own. Not thread-safe: used only by the thread that drives the device. Not usable inside a
/// capture.
class CudaTuner {
 public:
  explicit CudaTuner(int device_index);
  ~CudaTuner();
  CudaTuner(const CudaTuner&) = delete;
  CudaTuner& operator=(const CudaTuner&) = delete;

  cudaStream_t stream() const { return stream_; }
  /// Device time of one `work` in us: the best of several replays of a graph that holds several copies, so that
  /// launches by the host do not count; of one copy where that takes long.
  double time_us(const std::function<void(cudaStream_t)>& work);
  void synchronize();
  /// Waits for earlier work of `stream`, so that it does not disturb the timing; for a limited time only, because that
  /// work may itself wait for other ranks.
  void let_finish(cudaStream_t stream);

 private:
  /// Device time in us of what `enqueue` puts on the tuner's stream.
  double elapsed_us(const std::function<void()>& enqueue);

  int device_index_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, end_ = nullptr;
};

/// Memory allocated on the tuner's stream from the driver's pool, so that freeing it does not synchronize.
class TunerMemory {
 public:
  TunerMemory(CudaTuner& tuner, int device_index, size_t bytes);
  ~TunerMemory() { cudaFreeAsync(data_, stream_); }
  TunerMemory(const TunerMemory&) = delete;
  TunerMemory& operator=(const TunerMemory&) = delete;
  float* data() const { return static_cast<float*>(data_); }

 private:
  cudaStream_t stream_;
  void* data_ = nullptr;
};

}  // namespace amdahl
