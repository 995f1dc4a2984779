// What a pipeline stage of a model asks of a device: the model is made and run on a RecordingDevice, by the code that
// trains.
#pragma once

#include <vector>

#include "amdahl/plan.h"
#include "ops/recording_ops.h"
#include "plan/math_mode.h"
#include "plan/shards.h"

namespace amdahl {

/// A stage, and how a plan divides it. One stage of all layers: a model without pipeline parallelism.
struct StageCase {
  LayerRange layers{};
  std::vector<TensorRole> roles;       // by layer of the model: tensor_roles
  std::vector<bool> divided_tokens{};  // by layer: of sequence parallelism; empty: none
  int tensor_ranks = 1;                // this is rank 0, which has the largest shards
  Recompute recompute = Recompute::none;
  bool gathers_parameters = false;  // for each pass (zero3)
  bool accumulates = false;         // the gradients of a second micro-batch too
  int64_t rows = 1;                 // of a micro-batch
};

struct StageRecording {
  int64_t slot_bytes = 0;    // of each micro-batch in flight: activations, their gradients, what a stage receives
  int64_t shared_bytes = 0;  // of all: temporary memory of layers, parameters in the compute type, statistics
  OpRecording forward;       // with the loss in the last stage
  OpRecording backward;      // of one micro-batch
  CpuScratch scratch;        // of the stream: on a CPU
  GpuScratch gpu_scratch;    // on a GPU
  int64_t tensor_bytes = 0;  // that the rank passes to collectives of tensor parallelism, forward and backward
};

/// Throws as Model does for a case that cannot be made.
StageRecording record_stage(const ModelSpec& model, const StageCase& stage, BackendKind backend, MathMode math);

}  // namespace amdahl
