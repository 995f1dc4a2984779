// What a checkpoint keeps of a trainer, gathered on rank 0 and distributed from there.
#pragma once

#include <optional>
#include <vector>

#include "amdahl/tensor.h"
#include "ops/loss_scale.h"

namespace amdahl {

struct TrainingParts;

struct TrainerState {
  std::vector<float> parameters;              // layout order
  std::vector<std::vector<float>> optimizer;  // by state array, see Optimizer::state; layout order
  std::vector<NamedArray> buffers;            // what layers keep besides parameters: Model::buffers
  std::optional<LossScale> loss_scale;        // in fp16
  std::vector<std::vector<float>> feedback;   // GradientSync::feedback by data-parallel rank; layout order
  uint64_t step = 0;                          // finished optimizer steps
};

/// The state of all ranks, on rank 0; other ranks get the step alone. Collective; blocks.
TrainerState save_state(TrainingParts& parts);
/// Continues from the state that rank 0 passes; other ranks' argument is ignored. The number of ranks and the strategy
/// may differ from those of save_state. Collective; blocks.
void load_state(TrainingParts& parts, const TrainerState& state);
/// Begins with the parameters that rank 0 passes, in layout order; other ranks' argument is ignored. Collective;
/// blocks.
void load_parameters(TrainingParts& parts, const std::vector<float>& parameters);

/// Of this rank's layout, in its order. Collective where shards_parameters(); blocks.
std::vector<float> read_parameters(TrainingParts& parts);
/// All parameters in the order of make_layout(model), on rank 0; other ranks get nothing. Collective; blocks.
std::vector<float> gather_parameters(TrainingParts& parts);
/// Model::buffers of all layers, on rank 0. Collective; blocks.
std::vector<NamedArray> gather_buffers(TrainingParts& parts);
/// In fp16: the scale of the loss and the steps skipped so far, equal on all ranks. Blocks.
std::optional<LossScale> read_loss_scale(TrainingParts& parts);

}  // namespace amdahl
