#include "ops/gemm/cuda_tuner.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "device/cuda_check.h"

namespace amdahl {
namespace {

/// Executions of the work in a graph and replays of the graph; of work that takes longer than kLongUs, fewer: the
/// algorithms of one large GEMM would be timed for seconds.
constexpr int kCopies = 8, kReplays = 5, kLongReplays = 3;
constexpr double kLongUs = 500;
constexpr auto kPatience = std::chrono::milliseconds(20);

/// A graph of copies of the work.
class Replay {
 public:
  Replay(int device_index, cudaStream_t stream, int copies, const std::function<void(cudaStream_t)>& work) {
    cuda_check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), device_index,
               "cudaStreamBeginCapture");
    try {
      for (int i = 0; i < copies; ++i) work(stream);
    } catch (...) {
      cudaStreamEndCapture(stream, &graph_);
      release();
      throw;
    }
    cuda_check(cudaStreamEndCapture(stream, &graph_), device_index, "cudaStreamEndCapture");
    const cudaError_t code = cudaGraphInstantiate(&executable_, graph_, 0);
    if (code != cudaSuccess) release();
    cuda_check(code, device_index, "cudaGraphInstantiate");
  }
  ~Replay() { release(); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  cudaGraphExec_t handle() const { return executable_; }

 private:
  void release() {
    if (executable_) cudaGraphExecDestroy(executable_);
    if (graph_) cudaGraphDestroy(graph_);
    cudaGetLastError();
  }
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

CudaTuner::CudaTuner(int device_index) : device_index_(device_index) {
  cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), device_index, "cudaStreamCreateWithFlags");
  cuda_check(cudaEventCreate(&start_), device_index, "cudaEventCreate");
  cuda_check(cudaEventCreate(&end_), device_index, "cudaEventCreate");
}

CudaTuner::~CudaTuner() {
  cudaEventDestroy(start_);
  cudaEventDestroy(end_);
  cudaStreamDestroy(stream_);
}

void CudaTuner::synchronize() { cuda_check(cudaStreamSynchronize(stream_), device_index_, "cudaStreamSynchronize"); }

void CudaTuner::let_finish(cudaStream_t stream) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (cudaStreamQuery(stream) == cudaErrorNotReady && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  cudaGetLastError();  // clears cudaErrorNotReady; a real failure is reported again by the next call
}

double CudaTuner::elapsed_us(const std::function<void()>& enqueue) {
  cuda_check(cudaEventRecord(start_, stream_), device_index_, "cudaEventRecord");
  enqueue();
  cuda_check(cudaEventRecord(end_, stream_), device_index_, "cudaEventRecord");
  synchronize();
  float milliseconds = 0;
  cuda_check(cudaEventElapsedTime(&milliseconds, start_, end_), device_index_, "cudaEventElapsedTime");
  return milliseconds * 1e3;
}

double CudaTuner::time_us(const std::function<void(cudaStream_t)>& work) {
  work(stream_);  // loads code, and reports errors of the work here
  synchronize();
  const bool is_long = elapsed_us([&] { work(stream_); }) > kLongUs;
  const int copies = is_long ? 1 : kCopies, replays = is_long ? kLongReplays : kReplays;
  const Replay replay(device_index_, stream_, copies, work);
  double best = 1e30;
  for (int i = 0; i <= replays; ++i) {
    const double us =
        elapsed_us([&] { cuda_check(cudaGraphLaunch(replay.handle(), stream_), device_index_, "cudaGraphLaunch"); });
    if (i > 0) best = std::min(best, us / copies);
  }
  return best;
}

TunerMemory::TunerMemory(CudaTuner& tuner, int device_index, size_t bytes) : stream_(tuner.stream()) {
  cuda_check(cudaMallocAsync(&data_, std::max<size_t>(bytes, 256), stream_), device_index, "cudaMallocAsync");
  tuner.synchronize();
}

}  // namespace amdahl
