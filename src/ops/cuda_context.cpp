#include "ops/cuda_context.h"

#include "device/cuda_check.h"
#include "device/cuda_stream.h"
#include "ops/gemm/cuda_small.h"

namespace amdahl {
namespace {

bool bind(Device& device) {
  device.bind_thread();
  return true;
}

}  // namespace

CudaContext::CudaContext(Device& device, const OpsOptions& options)
    : device_(device), options_(options), bound_(bind(device)), tuner_(index()), gemm_(index(), options, tuner_) {
  preload_kernels(index());
  has_clusters_ = cuda_attribute(index(), cudaDevAttrClusterLaunch) != 0;
  has_small_ = has_clusters_ && preload_small(index());
}

StreamMemory& CudaContext::begin(Stream& stream) {
  device_.bind_thread();
  std::shared_ptr<void>& own = as_cuda_stream(stream).attachment(this);
  if (!own) own = std::make_shared<StreamMemory>(make_memory(as_cuda(stream)));
  return *static_cast<StreamMemory*>(own.get());
}

StreamMemory& CudaContext::tuner_memory() {
  if (!tuner_memory_) tuner_memory_ = std::make_unique<StreamMemory>(make_memory(tuner_.stream()));
  return *tuner_memory_;
}

void* CudaContext::workspace(StreamMemory& memory, size_t bytes) {
  if (bytes <= memory.workspace.bytes) return memory.workspace.data;
  if (memory.larger.empty() || memory.larger.back()->bytes() < bytes) {
    const RelaxedCapture relaxed;
    memory.larger.push_back(device_.allocate(bytes));
  }
  return memory.larger.back()->data();
}

StreamMemory CudaContext::make_memory(cudaStream_t stream) {
  const RelaxedCapture relaxed;  // the first use of a stream may be inside a capture
  constexpr size_t kCounterBytes = KernelScratch::kNumCounters * sizeof(unsigned);
  constexpr size_t kPartialBytes = KernelScratch::kPartialFloats * sizeof(float);
  constexpr size_t kTempBytes = KernelScratch::kTempFloats * sizeof(float);
  StreamMemory memory;
  memory.buffer = device_.allocate(kGemmWorkspaceBytes + kCounterBytes + kPartialBytes + kTempBytes);
  char* base = memory.buffer->as<char>();
  memory.workspace = {base, kGemmWorkspaceBytes};
  char* scratch = base + kGemmWorkspaceBytes;
  memory.launch = {stream, index(), device_.spec().sm_count, has_clusters_, {}};
  memory.launch.scratch.counters = reinterpret_cast<unsigned*>(scratch);
  memory.launch.scratch.partials = reinterpret_cast<float*>(scratch + kCounterBytes);
  memory.launch.scratch.temp = reinterpret_cast<float*>(scratch + kCounterBytes + kPartialBytes);
  cuda_check(cudaMemsetAsync(scratch, 0, kCounterBytes, tuner_.stream()), index(), "cudaMemsetAsync");
  tuner_.synchronize();
  return memory;
}

}  // namespace amdahl
