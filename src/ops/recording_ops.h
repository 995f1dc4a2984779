// Ops that compute nothing and note each call: what a model run on a RecordingDevice asks of a device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/cpu_scratch.h"
#include "ops/ops.h"

namespace amdahl {

/// A matrix product [m, k] x [k, n], or a convolution as one.
struct RecordedProduct {
  int64_t m = 0, n = 0, k = 0;
  int64_t count = 1;  // of equal products, one after another
  double flops() const {
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(count);
  }
};

/// Bytes that a call takes on a GPU: of the workspace of its stream, and of memory that is kept with the stream for
/// such calls.
struct GpuScratch {
  int64_t workspace = 0, kept = 0;
  /// The larger of each.
  void include(const GpuScratch& other) {
    workspace = std::max(workspace, other.workspace);
    kept = std::max(kept, other.kept);
  }
};

struct RecordedOp {
  const char* name;                         // of the function of its family: "matmul"
  std::vector<RecordedProduct> products{};  // of attention those of whole scores, masked or not, once each
  int64_t bytes = 0;                        // operands read and results written, each once
  CpuScratch scratch{};                     // on a CPU
  GpuScratch gpu_scratch{};                 // on a GPU
};

/// The calls since it was made or cleared.
struct OpRecording {
  std::vector<RecordedOp> ops;

  void clear() { ops.clear(); }
  /// 2 per multiply-add of matrix products, convolutions and attention.
  double flops() const;
  int64_t bytes() const;
  /// What the scratch memory of a stream grows to.
  CpuScratch scratch() const;
  GpuScratch gpu_scratch() const;
};

/// Operations for devices of a kind that compute in `math`; everything must outlive them. Where operations on GPUs
/// choose an algorithm at run time, they are noted as before that choice.
std::unique_ptr<Ops> make_recording_ops(BackendKind backend, MathMode math, OpRecording& recording);

}  // namespace amdahl
