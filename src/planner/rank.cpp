#include "planner/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "parallel/plan_memory.h"
#include "plan/plan_rules.h"
#include "planner/predict.h"
#include "planner/terms.h"
#include "stats/compare.h"

namespace amdahl {
namespace {

constexpr size_t kSimulated = 30;  // plans of each device count whose pipeline is simulated, not bounded

// Counts and times of stages, which plans that differ in schedule, ZeRO, overlap and buckets share, and what their
// memory shares.
class StageCache {
 public:
  StageCache(const ModelSpec& model, const Calibration& calibration)
      : model_(model),
        calibration_(calibration),
        rates_(rates_of(calibration)),
        software_(profile_of(calibration)),
        memories_(model, memory_setting_of(calibration)) {}

  StepPrediction predict(const ParallelPlan& plan, PipelineMethod method) {
    Entry& entry = entry_of(plan);
    set_step(plan, entry.work);
    StepPrediction step = predict_workload(entry.work, entry.times, memories_.of(plan), rates_, calibration_, method);
    step.plan = plan;
    return step;
  }

 private:
  struct Entry {
    Workload work;
    std::vector<StageTime> times;
  };
  using Key = std::tuple<Mesh, PlanOptions>;

  Entry& entry_of(const ParallelPlan& plan) {
    Key key{plan.mesh, plan};
    PlanOptions& options = std::get<1>(key);
    options.overlap = PlanOptions{}.overlap, options.bucket_bytes = PlanOptions{}.bucket_bytes;
    options.chunks = plan.mesh.pp > 1 ? chunks_of(plan) : 0;
    // Of the schedules, zb-v alone gives its ranks other stages.
    if (plan.mesh.pp == 1 || schedule_of(plan) != ScheduleKind::zb_v) options.schedule = PlanOptions{}.schedule;
    const auto found = entries_.find(key);
    if (found != entries_.end()) return found->second;
    Entry entry{make_workload(model_, plan, software_), {}};
    entry.times = stage_times(entry.work, rates_);
    return entries_.emplace(key, std::move(entry)).first->second;
  }

  const ModelSpec& model_;
  const Calibration& calibration_;
  Rates rates_;
  SoftwareProfile software_;
  std::map<Key, Entry> entries_;
  PlanMemories memories_;
};

// Device counts that are ranked: every small one, and of larger ones those that nodes of eight make.
constexpr int kEveryCount = 16, kCountStep = 8, kPowersFrom = 64;

std::vector<int> counts_to_rank(int most) {
  std::vector<int> counts;
  for (int count = 1; count < most; count = count < kEveryCount   ? count + 1
                                            : count < kPowersFrom ? count + kCountStep
                                                                  : 2 * count)
    counts.push_back(count);
  counts.push_back(most);
  return counts;
}

struct Candidate {
  size_t choice;
  double step_us;
};

bool better(const RankedPlan& a, const RankedPlan& b) {
  constexpr double kSame = 1e-9;
  if (std::abs(a.step.step_us / b.step.step_us - 1) > kSame) return a.step.step_us < b.step.step_us;
  const auto key = [](const RankedPlan& p) { return std::tuple(p.step.plan.num_devices(), p.text.size(), p.text); };
  return key(a) < key(b);
}

std::vector<RankedPlan> simulate_best(StageCache& cache, const std::vector<ParallelPlan>& choices,
                                      std::vector<Candidate> candidates) {
  const size_t count = std::min(kSimulated, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count), candidates.end(),
                    [](const Candidate& a, const Candidate& b) {
                      return std::tuple(a.step_us, a.choice) < std::tuple(b.step_us, b.choice);
                    });
  std::vector<RankedPlan> plans;
  for (size_t i = 0; i < count; ++i) {
    const ParallelPlan& choice = choices[candidates[i].choice];
    plans.push_back({cache.predict(choice, PipelineMethod::simulation), format_plan(choice)});
  }
  std::sort(plans.begin(), plans.end(), better);
  return plans;
}

// Of plans that differ in ZeRO, overlap and buckets only, the best.
void keep_best_variants(std::vector<RankedPlan>& plans) {
  std::vector<RankedPlan> kept;
  std::set<std::string> seen;
  for (RankedPlan& plan : plans) {
    const ParallelPlan& p = plan.step.plan;
    const std::string key =
        fmt::format("{} {} {} {} {} {}", p.mesh.dp, p.mesh.tp, p.mesh.pp, p.accumulate, p.recompute, p.schedule);
    if (seen.insert(key).second) kept.push_back(std::move(plan));
  }
  plans = std::move(kept);
}

std::string_view verdict_of(const Interval& speedup, bool assumed) {
  switch (recommend(speedup)) {
    case Recommendation::multi_device:
      return assumed ? "would pay" : "pays";
    case Recommendation::single_device:
      return assumed ? "would not pay" : "does not pay";
    case Recommendation::marginal:
      return "marginal";
    default:
      return "unclear";
  }
}

DevicesAnswer answer_of(const RankedPlan& best, const RankedPlan* single, const Calibration& calibration) {
  DevicesAnswer answer;
  answer.devices = best.step.plan.num_devices();
  answer.best = best.text, answer.step_us = best.step.step_us, answer.interval = best.step.interval;
  if (!single || answer.devices == 1) {
    answer.speedup_interval = {1, 1};
    answer.verdict = single ? "" : "one device has no plan that fits";
    return answer;
  }
  const Estimate speedup = predicted_speedup(single->step.account, best.step.account, calibration.interval_factor);
  answer.speedup = speedup.value;
  answer.speedup_interval = *speedup.ci;
  answer.verdict = verdict_of(answer.speedup_interval, calibration.is_assumed());
  return answer;
}

struct PartText {
  const char* name;
  double PlanAccount::*member;
};
constexpr PartText kParts[] = {{"compute", &PlanAccount::compute_us},
                               {"communication of tp", &PlanAccount::exposed_tp_us},
                               {"transfers of pp", &PlanAccount::exposed_pp_us},
                               {"gradients of dp", &PlanAccount::exposed_dp_us},
                               {"pipeline bubble", &PlanAccount::bubble_us},
                               {"optimizer", &PlanAccount::optimizer_us},
                               {"waiting for the host", &PlanAccount::gaps_us}};

std::string why_of(const RankedPlan& best, const RankedPlan& other) {
  const PartText* most = kParts;
  for (const PartText& part : kParts)
    if (other.step.account.*part.member - best.step.account.*part.member >
        other.step.account.*most->member - best.step.account.*most->member)
      most = &part;
  const bool apart = best.step.interval.high < other.step.interval.low;
  return fmt::format("{} is {:.1f} % faster than {}, mostly by {} ({} instead of {} us); their intervals {}", best.text,
                     100 * (other.step.step_us / best.step.step_us - 1), other.text, most->name,
                     format_number(best.step.account.*most->member), format_number(other.step.account.*most->member),
                     apart ? "do not overlap" : "overlap, so that measuring both decides");
}

}  // namespace

void rank_plans(const ModelSpec& model, const Calibration& calibration, const RankRequest& request,
                PlanOutcome& outcome) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<ParallelPlan> choices;
  const std::vector<int> counts = counts_to_rank(request.most_devices);
  if (static_cast<int>(counts.size()) < request.most_devices)
    outcome.notes.push_back(
        fmt::format("ranked are 1 to {} devices, then multiples of {}, from {} on powers of two, and {}", kEveryCount,
                    kCountStep, kPowersFrom, request.most_devices));
  for (const int devices : counts) {
    PlanQuery query{.num_devices = devices, .global_batch = request.global_batch};
    query.all_schedules = query.all_micro_batches = query.all_options = query.all_zero_stages = true;
    const std::vector<ParallelPlan> plans = enumerate_plans(model, query);
    choices.insert(choices.end(), plans.begin(), plans.end());
  }
  if (choices.empty())
    throw Error(Cause::usage,
                fmt::format("no plan divides {} and a global batch of {}", model.name, request.global_batch),
                "another `global_batch` or number of devices");
  StageCache cache(model, calibration);
  std::map<int, std::vector<Candidate>> by_devices;
  int64_t least_bytes = INT64_MAX;
  size_t smallest = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    const StepPrediction step = cache.predict(choices[i], PipelineMethod::bound);
    const int64_t bytes = step.memory.total();
    if (bytes < least_bytes) least_bytes = bytes, smallest = i;
    if (!step.fits) {
      ++outcome.num_too_large;
      continue;
    }
    if (!std::isfinite(step.step_us) || !std::isfinite(step.interval.high))
      throw Error(Cause::usage,
                  fmt::format("plan {} would take {} us, up to {} us: the constants do not go together",
                              format_plan(choices[i]), step.step_us, step.interval.high),
                  "the constants of the calibration, which ``calibrate machine=FILE`` measures again");
    by_devices[choices[i].num_devices()].push_back({i, step.step_us});
  }
  outcome.num_plans = static_cast<int64_t>(choices.size());
  if (by_devices.empty())
    throw Error(Cause::usage,
                fmt::format("{} at a global batch of {} fits on no plan of up to {} devices of {}: the smallest, {}, "
                            "needs {}",
                            model.name, request.global_batch, request.most_devices,
                            format_bytes(static_cast<double>(calibration.memory_bytes)), format_plan(choices[smallest]),
                            format_bytes(static_cast<double>(least_bytes))),
                "more devices, a smaller model, or devices with more memory");
  std::vector<RankedPlan> all;
  std::map<int, RankedPlan> best;
  for (auto& [devices, candidates] : by_devices) {
    std::vector<RankedPlan> plans = simulate_best(cache, choices, std::move(candidates));
    best.emplace(devices, plans.front());
    all.insert(all.end(), plans.begin(), plans.end());
  }
  std::sort(all.begin(), all.end(), better);
  const RankedPlan* single = best.count(1) ? &best.at(1) : nullptr;
  for (const auto& [devices, plan] : best) outcome.by_devices.push_back(answer_of(plan, single, calibration));
  keep_best_variants(all);
  if (all.size() > 1) outcome.why = why_of(all[0], all[1]);
  all.resize(std::min(all.size(), static_cast<size_t>(std::max(1, request.top))));
  outcome.ranking = std::move(all);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace amdahl
