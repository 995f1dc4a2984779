// What the CUDA families of one device share: per-stream memory, the tuner and the device's capabilities.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda_device.h"
#include "ops/cuda_kernels.h"
#include "ops/gemm/cuda_gemm.h"
#include "ops/gemm/cuda_tuner.h"
#include "ops/ops.h"

namespace amdahl {

/// Memory of one stream: the GEMMs' workspace and the kernels' scratch. Work on one stream runs in order, so all of it
/// can share this memory.
struct StreamMemory {
  std::unique_ptr<Buffer> buffer;
  GemmWorkspace workspace;
  KernelLaunch launch;
  std::vector<std::unique_ptr<Buffer>> larger;  // workspaces beyond `workspace`; graphs may use any of them
};

class CudaContext {
 public:
  CudaContext(Device& device, const OpsOptions& options);

  Device& device() { return device_; }
  const OpsOptions& options() const { return options_; }
  CudaTuner& tuner() { return tuner_; }
  CudaGemm& gemm() { return gemm_; }
  int index() const { return device_.spec().index; }
  int sm_count() const { return device_.spec().sm_count; }
  /// Whether this build has the small-batch kernels for this device (ops/gemm/cuda_small.h).
  bool has_small_kernels() const { return has_small_; }

  /// Makes the device current for the calling thread and returns the memory of `stream`, allocated on first use.
  StreamMemory& begin(Stream& stream);
  /// Memory of the tuner's stream.
  StreamMemory& tuner_memory();
  /// A workspace of at least `bytes` for work on the stream of `memory`; allocated when none is large enough.
  void* workspace(StreamMemory& memory, size_t bytes);
  /// A line of cuda_ops_choices.
  void note_choice(std::string line) { choices_.push_back(std::move(line)); }
  const std::vector<std::string>& choices() const { return choices_; }

 private:
  StreamMemory make_memory(cudaStream_t stream);

  Device& device_;
  OpsOptions options_;
  bool bound_;  // the members below need the device to be current
  CudaTuner tuner_;
  CudaGemm gemm_;
  bool has_clusters_ = false, has_small_ = false;
  std::unique_ptr<StreamMemory> tuner_memory_;
  std::vector<std::string> choices_;
};

/// Families that launch more than one kernel per call have a file of their own. The results keep the context alive.
std::unique_ptr<GemmOps> make_cuda_gemm_ops(std::shared_ptr<CudaContext> context);
std::unique_ptr<MatMulOps> make_cuda_matmul_ops(std::shared_ptr<CudaContext> context);
std::unique_ptr<NormOps> make_cuda_norm_ops(std::shared_ptr<CudaContext> context);
std::unique_ptr<AttentionOps> make_cuda_attention_ops(std::shared_ptr<CudaContext> context);
std::unique_ptr<SequenceOps> make_cuda_sequence_ops(std::shared_ptr<CudaContext> context);
std::unique_ptr<ConvOps> make_cuda_conv_ops(std::shared_ptr<CudaContext> context);
std::unique_ptr<RecurrentOps> make_cuda_recurrent_ops(std::shared_ptr<CudaContext> context);

}  // namespace amdahl
