#include "planner/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "planner/rank.h"
#include "stats/compare.h"

namespace amdahl {
namespace {

constexpr double kNearFactor = 2.0;  // evidence further away than this in size or batch is not used
constexpr double kSameSize = 1.01;   // counts as the same model size

struct Evidence {
  const StudyComparison* comparison;
  double size_factor;   // >= 1
  double batch_factor;  // >= 1

  /// Distance in log parameters and log batch: a factor of 2 in the batch counts as much as one in the parameters.
  double distance() const { return std::hypot(std::log(size_factor), std::log(batch_factor)); }
  bool is_near() const { return std::max(size_factor, batch_factor) <= kNearFactor; }
  bool same_batch() const { return batch_factor == 1.0; }
  bool exact() const { return size_factor <= kSameSize && same_batch(); }
};

double factor(int64_t a, int64_t b) {
  if (a <= 0 || b <= 0) return INFINITY;
  const double ratio = static_cast<double>(a) / static_cast<double>(b);
  return ratio >= 1 ? ratio : 1 / ratio;
}

// Strong scaling answers the question "this batch, one device or several"; weak scaling changes the batch.
std::vector<Evidence> evidence_for(const AdviceRequest& request, const StudySummary& summary) {
  std::vector<Evidence> all;
  for (const StudyComparison& c : summary.comparisons)
    if (c.multi.scaling == "strong" && c.multi.devices <= request.max_devices)
      all.push_back({&c, factor(request.num_parameters, c.multi.num_parameters),
                     factor(request.global_batch, c.multi.global_batch)});
  // The requested cell first, then the nearest; ties go to the requested batch.
  const auto rank = [](const Evidence& e) { return std::tuple(!e.exact(), e.distance(), !e.same_batch()); };
  std::stable_sort(all.begin(), all.end(), [&](const Evidence& x, const Evidence& y) { return rank(x) < rank(y); });
  return all;
}

// "1,014 times away in parameters, the same batch"
std::string away_text(const Evidence& e) {
  const auto one = [](double factor, const char* what, double same) {
    return factor <= same ? fmt::format("the same {}", what)
                          : fmt::format("{} times away in {}", format_number(factor), what);
  };
  return fmt::format("{}, {}", one(e.size_factor, "parameters", kSameSize), one(e.batch_factor, "batch", 1));
}

std::string evidence_line(const Evidence& e, const std::string& device_kind) {
  const StudyComparison& c = *e.comparison;
  const std::string interval =
      c.test.ci ? fmt::format("{:.2f}x [{:.2f}, {:.2f}] (95 % CI)", c.test.ratio, c.test.ci->low, c.test.ci->high)
                : fmt::format("{:.2f}x without interval", c.test.ratio);
  return fmt::format(
      "measured on {}: {}, {} parameters, batch {}, {}, {}, {}, 1 to {} devices: speedup {}, n={}+{}, {}: {}",
      device_kind == "cuda" ? "GPUs" : "CPU virtual devices (says nothing about GPUs)", c.multi.model,
      with_thousands(c.multi.num_parameters), c.multi.global_batch, c.multi.math, c.multi.strategy, c.multi.launch,
      c.multi.devices, interval, c.test.n_second, c.test.n_first, e.exact() ? "the cell asked for" : away_text(e),
      to_string(c.recommendation));
}

/// Estimated runs or processes of a new study that would settle it; 0: the default number.
struct Further {
  int64_t runs = 0, processes = 0;
};

std::string measuring_command(const AdviceRequest& request, const Further& further) {
  std::string devices = "1";
  for (int64_t n = 2; n <= request.max_devices; n *= 2) devices += fmt::format(",{}", n);
  std::vector<FieldWord> words{{"study"},
                               {"model", request.model.empty() ? "MODEL" : request.model},
                               {"batch_sizes", std::to_string(request.global_batch)},
                               {"devices", devices}};
  if (further.runs > 0) words.push_back({"runs", std::to_string(further.runs)});
  if (further.processes > 0) words.push_back({"processes", std::to_string(further.processes)});
  return named_reference(words);
}

// The comparison with the highest lower end of its speedup interval.
const StudyComparison& best_of(const std::vector<Evidence>& used) {
  const auto low = [](const Evidence& e) { return e.comparison->test.ci ? e.comparison->test.ci->low : 0.0; };
  return *std::max_element(used.begin(), used.end(), [&](const Evidence& x, const Evidence& y) {
            return low(x) < low(y);
          })->comparison;
}

// Several cells may answer one question (device counts, strategies, launch modes): several devices pay if any of them
// does; one device is better only if all of them agree.
Advice decide(const std::vector<Evidence>& used, const std::string& how_near) {
  Advice advice;
  size_t multi = 0, single = 0, marginal = 0;
  for (const Evidence& e : used) {
    multi += e.comparison->recommendation == Recommendation::multi_device;
    single += e.comparison->recommendation == Recommendation::single_device;
    marginal += e.comparison->recommendation == Recommendation::marginal;
  }
  const bool exact = used.front().exact();
  if (multi > 0 && (exact || multi == used.size())) {
    advice.decision = "multi";
    const CellKey& best = best_of(used).multi;
    advice.reason = fmt::format("{}: the speedup's interval lies at or above {:.2f}; best with {} devices, {}, {}",
                                how_near, kMultiBeneficial, best.devices, best.strategy, best.launch);
  } else if (single == used.size()) {
    advice.decision = "single";
    advice.reason = fmt::format("{}: the speedup's interval lies below {:.2f}", how_near, kSinglePreferred);
  } else if (single + marginal == used.size()) {
    advice.decision = "single";
    advice.reason = fmt::format("{}: at best marginal, between {:.2f} and {:.2f}; further devices are not recommended",
                                how_near, kSinglePreferred, kMultiBeneficial);
  } else {
    advice.decision = "benchmark";
    advice.reason = fmt::format("{}: the measurements do not decide it", how_near);
  }
  return advice;
}

Advice unknown(const AdviceRequest& request, const std::string& why) {
  Advice advice;
  advice.decision = "unknown";
  advice.reason = "not measured: " + why;
  advice.modes_to_measure = {"single", "multi"};
  advice.command = measuring_command(request, {});
  return advice;
}

}  // namespace

Advice advise_predicted(const AdviceRequest& request, const ModelSpec& model, const Calibration& calibration) {
  PlanOutcome outcome;
  rank_plans(model, calibration, {request.global_batch, static_cast<int>(request.max_devices), 1}, outcome);
  Advice advice;
  size_t several = 0, against = 0, marginal = 0;
  const DevicesAnswer* best = nullptr;
  for (const DevicesAnswer& answer : outcome.by_devices) {
    if (answer.devices == 1) continue;
    ++several;
    against += answer.verdict == "does not pay" || answer.verdict == "would not pay",
        marginal += answer.verdict == "marginal";
    const bool pays =
        answer.verdict == "pays" || answer.verdict == "would pay" || outcome.by_devices.front().devices > 1;
    if (pays && (!best || answer.step_us < best->step_us)) best = &answer;
    advice.evidence.push_back(fmt::format("modelled: {}, {:.2f}x one device [{:.2f}, {:.2f}]: {}", answer.best,
                                          answer.speedup, answer.speedup_interval.low, answer.speedup_interval.high,
                                          answer.verdict));
  }
  const std::string source = fmt::format("predicted from the calibration of {}", printable(calibration.device_name));
  const bool one = several > 0 && against + marginal == several;
  advice.decision = best ? "multi" : one ? "single" : "benchmark";
  advice.reason = best  ? fmt::format("{}: {} devices, {}", source, best->devices, best->best)
                  : one ? fmt::format("{}: no number of devices up to {} pays", source, request.max_devices)
                        : fmt::format("{}: the intervals do not decide it", source);
  if (one && against == several) return advice;
  advice.modes_to_measure = {"single", "multi"};
  advice.command = measuring_command(request, {});
  return advice;
}

Advice advise_measured(const AdviceRequest& request, const StudySummary& summary) {
  if (!request.device_kind.empty() && !summary.device_kind.empty() && request.device_kind != summary.device_kind)
    return unknown(request, fmt::format("the records are of {} devices, the question is about {}", summary.device_kind,
                                        request.device_kind));
  const std::vector<Evidence> all = evidence_for(request, summary);
  if (all.empty())
    return unknown(request, fmt::format("no strong-scaling comparison on up to {} devices", request.max_devices));

  std::vector<Evidence> used;
  for (const Evidence& e : all)
    if (all.front().exact() ? e.exact() : e.is_near()) used.push_back(e);
  if (used.empty()) {
    Advice advice =
        unknown(request, fmt::format("the nearest evidence is {}, more than the factor {:.0f} that would be used",
                                     away_text(all.front()), kNearFactor));
    advice.evidence.push_back(evidence_line(all.front(), summary.device_kind));
    return advice;
  }
  const bool exact = used.front().exact();
  double within = 1;
  for (const Evidence& e : used) within = std::max({within, e.size_factor, e.batch_factor});
  Advice advice = decide(
      used, exact ? "measured at this model size and batch"
                  : fmt::format("measured near it, within {} times in parameters and batch", format_number(within)));
  Further further;
  for (const Evidence& e : used) {
    advice.evidence.push_back(evidence_line(e, summary.device_kind));
    const int64_t made = num_made(e.comparison->test), more = e.comparison->more_runs;
    int64_t& total = e.comparison->test.level == TestLevel::runs ? further.runs : further.processes;
    if (more > 0 && is_settled_by(more, made)) total = std::max(total, made + more);
  }
  if (!exact || advice.decision == "benchmark") {
    advice.modes_to_measure = {"single", "multi"};
    advice.command = measuring_command(request, advice.decision == "benchmark" ? further : Further{});
  }
  return advice;
}

}  // namespace amdahl
