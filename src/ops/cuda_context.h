// What the CUDA families of one device share: per-stream memory, the tuner and the device's capabilities.
#pragma once

#include <memory>

#include "device/cuda_device.h"
#include "ops/cuda_gemm.h"
#include "ops/cuda_kernels.h"
#include "ops/cuda_tuner.h"
#include "ops/ops.h"

namespace amdahl {

/// Memory of one stream: the GEMMs' workspace and the kernels' scratch. Work on one stream runs in order, so all of it
/// can share this memory.
struct StreamMemory {
  std::unique_ptr<Buffer> buffer;
  GemmWorkspace workspace;
  KernelLaunch launch;
};

class CudaContext {
 public:
  CudaContext(Device& device, const OpsOptions& options);

  Device& device() { return device_; }
  const OpsOptions& options() const { return options_; }
  CudaTuner& tuner() { return tuner_; }
  int index() const { return device_.spec().index; }
  int sm_count() const { return device_.spec().sm_count; }
  /// Whether this build has the small-batch kernels for this device (ops/cuda_small.h).
  bool has_small_kernels() const { return has_small_; }

  /// Makes the device current for the calling thread and returns the memory of `stream`, allocated on first use.
  StreamMemory& begin(Stream& stream);
  /// Memory of the tuner's stream.
  StreamMemory& tuner_memory();

 private:
  StreamMemory make_memory(cudaStream_t stream);

  Device& device_;
  OpsOptions options_;
  bool bound_;  // the members below need the device to be current
  CudaTuner tuner_;
  bool has_clusters_ = false, has_small_ = false;
  std::unique_ptr<StreamMemory> tuner_memory_;
};

/// Families that launch more than one kernel per call have a file of their own. The result keeps the context alive.
std::unique_ptr<GemmOps> make_cuda_gemm_ops(std::shared_ptr<CudaContext> context);

}  // namespace amdahl
