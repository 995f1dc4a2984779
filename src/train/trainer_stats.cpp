// Losses of steps and evaluations.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "train/trainer.h"

namespace amdahl {
int64_t Trainer::evaluated_rows() const {
  // Ranks that gather parameters for each other run equal numbers of passes.
  const ParallelPlan& plan = options_.plan;
  const int64_t share = even_share(plan.global_batch, plan.mesh.dp, plan.mesh.dp - 1).rows();
  if (shards_parameters()) return even_share(share, static_cast<int>(plan.accumulate), 0).rows();
  return has_stages() ? divided_->stages()->micro_batch_rows()
                      : most_micro_batch_rows(plan, row_.full_batch_everywhere);
}

StepStats Trainer::evaluate(const float* features, const float* targets, int64_t rows) {
  strategy_->begin_pass(true, nullptr);
  if (has_stages()) return evaluate_stages(features, targets, rows);
  StepStats total;
  const int64_t chunk = evaluated_rows();
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const BatchView batch{.features = aligned_rows(features, begin, std::min(chunk, rows - begin)),
                          .targets = targets + begin * options_.model.target_width(),
                          .rows = std::min(chunk, rows - begin),
                          .row_offset = begin,
                          .global_rows = rows};
    model_.forward(*compute_, batch, false);
    model_.loss(*compute_, batch, false);
    const StepStats part = read_stats(model_);
    total.loss += part.loss;
    total.correct += part.correct;
    if (options_.model.loss == LossKind::mse) total.absolute_error += absolute_error(model_, batch);
  }
  return total;
}

/// The part of the mean absolute error of batch.global_rows rows that these rows contribute. Blocks.
double Trainer::absolute_error(Model& model, const BatchView& batch) {
  const int64_t values = batch.rows * options_.model.output_width();
  std::vector<float> outputs(static_cast<size_t>(values)), targets(outputs.size());
  rank_.device.copy_out(*compute_, outputs.data(), model.outputs(), float_bytes(values));
  rank_.device.copy_out(*compute_, targets.data(), batch.targets, float_bytes(values));
  compute_->synchronize(deadline());
  double sum = 0;
  for (size_t i = 0; i < outputs.size(); ++i) sum += std::abs(double{outputs[i]} - double{targets[i]});
  return sum / static_cast<double>(batch.global_rows * options_.model.output_width());
}

StepStats Trainer::read_stats(Model& model) {
  float host[kLossStats] = {};
  rank_.device.copy_out(*compute_, host, model.loss_stats(), sizeof(host));
  compute_->synchronize(deadline());
  return {host[0], host[1]};
}

StepStats Trainer::local_stats() {
  if (!divided_) return read_stats(model_);
  if (divided_->counts_loss()) return read_stats(*divided_->loss_model());
  compute_->synchronize(deadline());
  return {};
}

StepStats Trainer::sum_over_ranks(const StepStats& local) {
  if (!divided_ && (rank_.world_size == 1 || row_.full_batch_everywhere || strategy_->has_whole_stats())) return local;
  return sum_over(rank_.communicator, local);
}

StepStats Trainer::sum_over(Communicator& ranks, const StepStats& local) {
  const std::string mine(reinterpret_cast<const char*>(&local), sizeof(local));
  StepStats total;
  for (const std::string& bytes : ranks.exchange(mine, deadline())) {
    StepStats part;
    if (bytes.size() != sizeof(part)) throw Error(Cause::collective_mismatch, "a rank sent no statistics of a step");
    std::memcpy(&part, bytes.data(), sizeof(part));
    total.loss += part.loss;
    total.correct += part.correct;
    total.absolute_error += part.absolute_error;
  }
  return total;
}

}  // namespace amdahl
