// One training step of a rank as work on its streams.
#pragma once

#include "parallel/pipeline/stage_stamps.h"
#include "train/assemble.h"

namespace amdahl {

/// What of a step is enqueued: by default all of it, the step that trains. What is left in is enqueued as in a full
/// step, except that without communication parameters are updated after backward, never within it.
struct StepWork {
  bool input = true;             // rank 0 scatters the batch, if the strategy does; else what an earlier step scattered
  bool forward = true;           // and loss; false: only messages between pipeline stages, see enqueue_round_trips
  bool backward = true;          // with pipeline stages always
  bool communication = true;     // of the data axis; without: no gradient is sent
  bool update = true;            // of parameters; without communication from this rank's own gradients
  bool tensor_sums = true;       // of tensor parallelism; without, parameters become those of no training
  StepStamps* stamps = nullptr;  // around its parts; must outlive the step's graphs
  StageStamps* stage_stamps = nullptr;  // around actions and waits of pipeline stages, likewise

  auto operator<=>(const StepWork&) const = default;
  bool trains() const { return input && forward && backward && communication && update && tensor_sums; }
};

/// `features` and `targets`: device-resident rows of Trainer::rows_to_provide.
void enqueue_step(TrainingParts& parts, const float* features, const float* targets, const StepWork& work);

/// Rows of `features` from `first` on, copied where convolutions could not read them in place.
const float* aligned_rows(TrainingParts& parts, const float* features, int64_t first, int64_t rows);

/// Before the first step of several GPUs: forward and backward without communication, which change nothing that a step
/// reads. The first launch of a kernel waits for running kernels, because the library loads it then. If one of these is
/// a collective that waits for a rank which is loading too, both hang. So each rank runs every kernel once first.
/// Collective; blocks.
void load_kernels(TrainingParts& parts, const float* features, const float* targets);

}  // namespace amdahl
