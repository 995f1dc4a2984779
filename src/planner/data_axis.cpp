// What a step sends over the data axis, and what its parameters take: counts of UnitSync, BucketedSync and of the
// collectives between threads (comm/inproc_communicator.cpp).
#include <algorithm>
#include <cmath>

#include "plan/zero_units.h"
#include "planner/workload.h"

namespace amdahl {
namespace {

/// Parameters of a stage's layers, which ZeRO 2 and 3 gather and reduce one by one, and whether a table is one more.
struct StageUnits {
  std::vector<double> layers;
  double parameters = 0;  // with the table
  double sum() const {
    double all = 0;
    for (const double layer : layers) all += layer;
    return all;
  }
  double count() const { return static_cast<double>(layers.size()) + (parameters > sum() ? 1 : 0); }
};

/// Of the pipeline rank with most parameters.
std::vector<StageUnits> units_of(const Workload& work) {
  const std::vector<double> held = work.rank_parameters();
  const auto fullest = static_cast<int>(std::max_element(held.begin(), held.end()) - held.begin());
  std::vector<StageUnits> stages;
  for (size_t s = 0; s < work.stages.size(); ++s) {
    if (work.mesh.pp > 1 && rank_of_stage(work.schedule, work.mesh.pp, static_cast<int>(s)) != fullest) continue;
    stages.push_back({{}, work.stages[s].parameters});
    for (const LayerWork& layer : work.stages[s].layers)
      if (const double unit = layer.parameters - layer.pinned; unit > 0)
        stages.back().layers.insert(stages.back().layers.end(), static_cast<size_t>(layer.repeats), unit);
  }
  return stages;
}

}  // namespace

std::vector<double> Workload::rank_parameters() const {
  std::vector<double> ranks(static_cast<size_t>(mesh.pp));
  for (size_t stage = 0; stage < stages.size(); ++stage)
    ranks[static_cast<size_t>(rank_of_stage(schedule, mesh.pp, static_cast<int>(stage)))] += stages[stage].parameters;
  return ranks;
}

// ZeRO stages 2 and 3 keep sums of a rank's part alone, to which each micro-batch is added, unless the schedule
// computes a layer's gradients at two times (UnitSync).
double Workload::reductions() const {
  const bool divides = mesh.pp > 1 && splits_backward(schedule);
  return zero_stage >= 2 && !divides ? static_cast<double>(micro_batches) : 1;
}

// Stage 3 gathers the layers in forward and in backward of each micro-batch, except those of the pass before that its
// two places still hold: the last two where it turns to backward, and the first two at the next micro-batch.
double Workload::gathers() const {
  if (zero_stage < 3) return 1;
  const auto passes = static_cast<double>(micro_batches);
  double all = 0, gathered = 0;
  for (const StageUnits& stage : units_of(*this)) {
    all += stage.parameters, gathered += stage.parameters;
    const std::vector<double>& units = stage.layers;
    if (units.size() <= kParameterSlots) continue;
    const double last = units.back() + units[units.size() - 2], first = units[0] + units[1], divided = stage.sum();
    gathered += passes * (divided - last) + (passes - 1) * (divided - first);
  }
  return all > 0 ? gathered / all : 1;
}

// Without the sum of a unit's or bucket's short front, which follows another collective at once.
double Workload::data_calls() const {
  if (zero_stage < 2) {
    const std::vector<double> held = rank_parameters();
    const double bytes = *std::max_element(held.begin(), held.end()) * gradient_bytes;
    return std::max(1.0, std::ceil(bytes / bucket_bytes)) * (zero_stage == 1 ? 2 : 1);
  }
  double calls = 0;
  for (const StageUnits& stage : units_of(*this)) {
    calls += stage.count() * (reductions() + 1);
    const auto layers = static_cast<double>(stage.layers.size());
    if (zero_stage == 3 && layers > kParameterSlots)
      calls += (layers - kParameterSlots) * (2 * static_cast<double>(micro_batches) - 1);
  }
  return calls;
}

// An all-reduce reads and writes an array once per rank: n parts of 1/n and as many results. A reduce-scatter reads as
// much and writes 1/n. Stages 2 and 3 copy this part to where it is kept, or add it to what is there (three accesses
// instead of two). Gathered parameters are in place in stages 1 and 2; stage 3 copies those of all ranks.
double Workload::thread_passes() const {
  if (zero_stage == 0) return 1;
  const double n = mesh.dp, count = reductions();
  const double reduced = count * (1 + 1 / n) / 2, kept = zero_stage > 1 ? (1 + 1.5 * (count - 1)) / n : 0;
  return reduced + kept + (zero_stage == 3 ? gathers() : 1 - 1 / n);
}

double Workload::touched_bytes(bool updates) const {
  constexpr double kPasses = 3;                            // over activations, in LayerWork::bytes
  const double parameter_bytes = updates ? 4 * 4 : 2 * 4;  // Adam has two moments
  double activations = 0;
  for (const StageWork& stage : stages)
    for (const LayerWork& layer : stage.layers) activations += layer.repeats * layer.bytes / kPasses;
  const std::vector<double> ranks = rank_parameters();
  return parameter_bytes * *std::max_element(ranks.begin(), ranks.end()) + activations / mesh.pp;
}

}  // namespace amdahl
