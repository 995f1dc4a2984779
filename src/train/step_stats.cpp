#include "train/step_stats.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "train/step.h"

namespace amdahl {
namespace {

/// Rows of one pass of an evaluation.
int64_t evaluated_rows(TrainingParts& parts) {
  // Ranks that gather parameters for each other run equal numbers of passes.
  const ParallelPlan& plan = parts.options.plan;
  const int64_t share = even_share(plan.global_batch, plan.mesh.dp, plan.mesh.dp - 1).rows();
  if (parts.shards_parameters()) return even_share(share, static_cast<int>(plan.accumulate), 0).rows();
  return parts.divided.stages() ? parts.divided.stages()->micro_batch_rows() : parts.most_rows();
}

StepStats read_stats(TrainingParts& parts, Model& model) {
  float host[kLossStats] = {};
  parts.rank.device.copy_out(*parts.compute, host, model.loss_stats(), sizeof(host));
  parts.compute->synchronize(parts.deadline());
  return {host[0], host[1]};
}

/// The part of the mean absolute error of `all_rows` rows that these rows contribute. Blocks.
double absolute_error(TrainingParts& parts, Model& model, const float* targets, int64_t rows, int64_t all_rows) {
  const int64_t values = rows * parts.options.model.output_width();
  std::vector<float> outputs(static_cast<size_t>(values)), wanted(outputs.size());
  parts.rank.device.copy_out(*parts.compute, outputs.data(), model.outputs(), float_bytes(values));
  parts.rank.device.copy_out(*parts.compute, wanted.data(), targets, float_bytes(values));
  parts.compute->synchronize(parts.deadline());
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i) sum += std::abs(double{outputs[i]} - double{wanted[i]});
  return sum / static_cast<double>(all_rows * parts.options.model.output_width());
}

StepStats sum_over(TrainingParts& parts, Communicator& ranks, const StepStats& local) {
  const std::string mine(reinterpret_cast<const char*>(&local), sizeof(local));
  StepStats total;
  for (const std::string& bytes : ranks.exchange(mine, parts.deadline())) {
    StepStats part;
    if (bytes.size() != sizeof(part)) throw Error(Cause::collective_mismatch, "a rank sent no statistics of a step");
    std::memcpy(&part, bytes.data(), sizeof(part));
    total.loss += part.loss;
    total.correct += part.correct;
    total.absolute_error += part.absolute_error;
  }
  return total;
}

}  // namespace

StepStats local_stats(TrainingParts& parts) {
  if (parts.divided.counts_loss()) return read_stats(parts, *parts.divided.loss_model());
  parts.compute->synchronize(parts.deadline());
  return {};
}

StepStats sum_over_ranks(TrainingParts& parts, const StepStats& local) {
  const bool whole = parts.rank.world_size == 1 || parts.row.full_batch_everywhere || parts.sync->has_whole_stats();
  return whole && !parts.divided.is_divided() ? local : sum_over(parts, parts.rank.communicator, local);
}

bool takes_part_in_evaluation(const TrainingParts& parts) {
  return parts.shards_parameters() || parts.divided.place().dp == 0;
}

StepStats evaluate(TrainingParts& parts, const float* features, const float* targets, int64_t rows) {
  const ModelSpec& spec = parts.options.model;
  StageRunner* const stages = parts.divided.stages();
  const bool counts = !stages || parts.divided.counts_loss();
  parts.sync->begin_pass(true, nullptr);
  StepStats total;
  const int64_t chunk = evaluated_rows(parts);
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t count = std::min(chunk, rows - begin);
    const float* const first_target = targets + begin * spec.target_width();
    if (stages) {
      stages->evaluate(features + begin * spec.input_width, first_target, count, rows);
    } else {
      const BatchView batch{.features = aligned_rows(parts, features, begin, count),
                            .targets = first_target,
                            .rows = count,
                            .row_offset = begin,
                            .global_rows = rows};
      parts.model.forward(*parts.compute, batch, false);
      parts.model.loss(*parts.compute, batch, false);
    }
    if (!counts) continue;
    Model& model = *parts.divided.loss_model();
    const StepStats part = read_stats(parts, model);
    total.loss += part.loss;
    total.correct += part.correct;
    if (spec.loss == LossKind::mse) total.absolute_error += absolute_error(parts, model, first_target, count, rows);
  }
  return stages ? sum_over(parts, parts.divided.replica(), total) : total;
}

}  // namespace amdahl
