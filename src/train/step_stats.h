// Losses of steps and evaluations.
#pragma once

#include <cstdint>

namespace amdahl {

struct TrainingParts;

/// Loss and number of correct rows of the last step or evaluation. Each rank holds its part; the sum over ranks is that
/// of the global batch.
struct StepStats {
  double loss = 0;
  double correct = 0;
  double absolute_error = 0;  // mean over rows and outputs, of an evaluation with mse only
};

/// This rank's part of the last step's statistics (the whole where every rank has the full batch). Blocks.
StepStats local_stats(TrainingParts& parts);
/// The sum of all ranks' parts, on every rank. Collective; blocks.
StepStats sum_over_ranks(TrainingParts& parts, const StepStats& local);

/// Whether this rank takes part in evaluate: rank 0, and the ranks that it needs where the model or its parameters are
/// divided.
bool takes_part_in_evaluation(const TrainingParts& parts);
/// Forward without dropout over device-resident rows; loss is the mean over the rows. Collective over the ranks that
/// take part; blocks.
StepStats evaluate(TrainingParts& parts, const float* features, const float* targets, int64_t rows);

}  // namespace amdahl
