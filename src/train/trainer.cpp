#include "train/trainer.h"

#include <algorithm>
#include <optional>

#include "device/profiler_ranges.h"
#include "train/replicas.h"

namespace amdahl {

AutoTimeouts auto_timeouts(double longest_step_seconds, int64_t queued_steps) {
  constexpr double kTimes = 5, kLeast = 5;
  const double one = kTimes * longest_step_seconds;
  return {std::max(kLeast, one), std::max(kLeast, one * static_cast<double>(queued_steps))};
}

Trainer::Trainer(const RankContext& rank, const TrainerOptions& options) : parts_(rank, options) { reset(); }

Trainer::~Trainer() {
  try {  // work in flight reads this object's buffers
    synchronize();
  } catch (...) {  // the error was or will be reported by the call that waits for this step
  }
}

void Trainer::reset() {
  synchronize();
  parts_.optimizer->reset(*parts_.compute);
  parts_.sync->reset();
  parts_.divided.initialise(parts_.deadline());
  begin_own_state(parts_);
}

RowRange Trainer::rows_to_provide() const {
  const RowRange all{0, parts_.options.plan.global_batch};
  if (parts_.row.full_batch_everywhere) return all;
  if (parts_.row.data_on_root) return parts_.rank.rank == 0 ? all : RowRange{0, 0};
  return data_share(parts_.options.plan, parts_.divided.place().dp);
}

void Trainer::launch(const float* features, const float* targets, const StepWork& work, LaunchMode mode) {
  std::optional<ProfilerRange> range;
  if (work.trains()) range.emplace("step");
  if (warmed_ && mode == LaunchMode::graph) return graph_of(features, targets, work).launch(*parts_.compute);
  if (!warmed_ && work.communication) load_kernels(parts_, features, targets);
  enqueue_step(parts_, features, targets, work);
  warmed_ = warmed_ || work.trains();
}

void Trainer::capture(const float* features, const float* targets, const StepWork& work) {
  if (warmed_) graph_of(features, targets, work);
}

Graph& Trainer::graph_of(const float* features, const float* targets, const StepWork& work) {
  std::unique_ptr<Graph>& graph = graphs_[{features, work}];
  if (!graph)
    graph = parts_.rank.device.capture(*parts_.compute, [&] { enqueue_step(parts_, features, targets, work); });
  return *graph;
}

size_t Trainer::graph_nodes(const StepWork& work) const {
  for (const auto& [key, graph] : graphs_)
    if (key.second == work) return graph->num_nodes();
  return 0;
}

}  // namespace amdahl
