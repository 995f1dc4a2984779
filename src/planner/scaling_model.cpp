#include "planner/scaling_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "planner/catalogue.h"
#include "stats/compare.h"
#include "stats/estimate.h"

namespace amdahl {
namespace {

constexpr double kGradientBytes = 4;  // per parameter: gradients are f32 in every math mode
// On one device the update runs within backward as its gradients complete; on several it follows the all-reduce. Adam
// reads gradient, parameter and two moments and writes the last three.
constexpr double kUpdateBytes = 28;
constexpr double kReachedMemory = 0.85;  // of the data sheet's rate
// Median of measured less predicted over the cells of `medium`, 54,403 parameters, on 2 and 4 H200s
// (results/h200/medium), whose update and gradients take no time: branches of the graph join around the collective.
constexpr double kJoinUs = 10.8;

auto work_of(const CellKey& key) {
  return std::tie(key.model, key.num_parameters, key.optimizer, key.plan.accumulate, key.data);
}

// The fastest configuration of each batch on one device.
using Curve = std::map<int64_t, const StudyCell*>;

std::string format_cell(const StudyCell& cell) {
  return fmt::format("batch {}, {}, {}, n = {}", with_thousands(cell.key.global_batch), cell.key.launch, cell.key.math,
                     cell.step_time_us.n);
}

struct StepAt {
  Estimate step;
  PredictedTerm term;
  double backward_share = -1;  // share of the step; negative: unknown
};

double backward_share(const StudyCell& cell) {
  return cell.account && cell.account->trusted() ? cell.account->backward_us / cell.account->whole_us() : -1;
}

StepAt step_at(const Curve& curve, int64_t batch) {
  const auto above = curve.lower_bound(batch);  // batch is at most the largest of the curve: never end()
  const StudyCell& cell = *above->second;
  if (above->first == batch || above == curve.begin()) {
    const bool exact = above->first == batch;
    return {
        cell.step_time_us.estimate(),
        {"T1(B/n)", cell.step_time_us.estimate().value, exact ? Origin::measured : Origin::modelled,
         exact ? format_cell(cell) : fmt::format("at most that of the smallest batch measured: {}", format_cell(cell))},
        backward_share(cell)};
  }
  const auto below = std::prev(above);
  const double part = static_cast<double>(batch - below->first) / static_cast<double>(above->first - below->first);
  const Weighted ends[] = {{below->second->step_time_us.estimate(), 1 - part}, {cell.step_time_us.estimate(), part}};
  const Estimate between = sum_of(ends);
  return {between,
          {"T1(B/n)", between.value, Origin::modelled,
           fmt::format("batch {} on the line between {} and {}", with_thousands(batch), format_cell(*below->second),
                       format_cell(cell))},
          backward_share(cell)};
}

std::string words(double value) { return format_number(value); }

// The kind of the GPUs that were measured; null when the catalogue has none.
const GpuKind* gpu_of(const StudySummary& summary) {
  for (const Provenance& provenance : summary.provenance)
    if (const auto name = provenance.facts.find("device.0"); name != provenance.facts.end())
      if (const GpuKind* kind = gpu_kind_of(name->second)) return kind;
  return nullptr;
}

// Adds what a graph of one device does not have: joins of its streams, and an update that follows the all-reduce.
void add_update(const StudyCell& whole, const GpuKind* gpu, ScalingPrediction& prediction) {
  if (whole.key.launch != "graph") return;
  prediction.terms.push_back({"joins of the graph", kJoinUs, Origin::modelled,
                              "median over 12 cells of a model of 54,403 parameters on 2 and 4 H200s "
                              "(results/h200/medium)"});
  if (!gpu) return;
  const double bytes = kUpdateBytes * static_cast<double>(whole.key.num_parameters);
  prediction.terms.push_back(
      {"update after the all-reduce", bytes / (gpu->memory_gbps * kReachedMemory * 1e3), Origin::modelled,
       fmt::format("{} at {} of {} GB/s: {}", format_bytes(bytes), kReachedMemory, gpu->memory_gbps, gpu->source)});
}

void add_communication(const LinkModel& link, double bytes, ScalingPrediction& prediction) {
  const int64_t n = prediction.devices;
  prediction.terms.push_back(
      {"all-reduce latency", link.latency_us(n), link.latency_origin,
       fmt::format("{} + {} x {} us, {}", words(link.base_us), 2 * (n - 1), words(link.hop_us), link.latency_source)});
  prediction.terms.push_back({"gradient bytes", link.transfer_us(bytes, n), Origin::modelled,
                              fmt::format("2 x {} / {} x {} at {} GB/s: {}", n - 1, n, format_bytes(bytes),
                                          words(link.ring_gbps(n)), link.rate_source)});
}

// Takes off the communication time that backward hides. The terms are T1(B/n), then the two of communication.
void hide_communication(const StepAt& step, ScalingPrediction& prediction) {
  if (step.backward_share <= 0) return;
  const double communication = prediction.terms[1].us + prediction.terms[2].us;
  prediction.terms.push_back({"hidden behind backward", -std::min(communication, step.backward_share * step.step.value),
                              Origin::modelled,
                              fmt::format("backward is {:.0f} % of the step account; communication is taken to cost it "
                                          "nothing",
                                          100 * step.backward_share)});
}

ScalingPrediction predict(const Curve& curve, const StudyCell& whole, int64_t devices, const LinkModel& link,
                          const GpuKind* gpu, bool overlap) {
  ScalingPrediction prediction;
  prediction.single = whole.key;
  prediction.single_us = whole.step_time_us.estimate().value;
  prediction.n_single = whole.step_time_us.n;
  prediction.devices = devices;
  const int64_t share = (whole.key.global_batch + devices - 1) / devices;
  const StepAt step = step_at(curve, share);
  prediction.terms.push_back(step.term);
  add_communication(link, kGradientBytes * static_cast<double>(whole.key.num_parameters), prediction);
  add_update(whole, gpu, prediction);
  if (overlap) hide_communication(step, prediction);
  for (const PredictedTerm& term : prediction.terms) prediction.step_us += term.us;
  Estimate several{prediction.step_us, step.step.ci};  // the model adds no spread
  const double modelled = prediction.step_us - step.step.value;
  if (several.ci) several.ci = Interval{several.ci->low + modelled, several.ci->high + modelled};
  const Estimate speedup = ratio_of(whole.step_time_us.estimate(), several);
  prediction.speedup = speedup.value;
  prediction.ci = speedup.ci;
  prediction.recommendation = recommend(speedup.ci);
  return prediction;
}

bool answers(const StudyCell& cell, const ScalingQuestion& question) {
  return cell.step_time_us.n > 0 && (question.model.empty() || question.model == cell.key.model);
}

std::vector<Curve> curves_of(const StudySummary& summary, const ScalingQuestion& question) {
  std::vector<Curve> curves;
  for (const StudyCell& cell : summary.cells) {
    if (cell.key.devices != 1 || !answers(cell, question)) continue;
    auto curve = std::find_if(curves.begin(), curves.end(), [&](const Curve& known) {
      return work_of(known.begin()->second->key) == work_of(cell.key);
    });
    if (curve == curves.end()) curve = curves.insert(curves.end(), Curve{});
    const StudyCell*& best = (*curve)[cell.key.global_batch];
    if (!best || cell.step_time_us.estimate().value < best->step_time_us.estimate().value) best = &cell;
  }
  return curves;
}

// Whether the run's devices were linked as the prediction assumes; a link that was measured is that of its machine.
bool has_link(const StudySummary& summary, const LinkModel& link) {
  const auto& models = link_models();
  if (std::none_of(models.begin(), models.end(), [&](const LinkModel& model) { return model.name == link.name; }))
    return true;
  for (const Provenance& provenance : summary.provenance)
    if (const auto off = provenance.facts.find("env.NCCL_P2P_DISABLE");
        off != provenance.facts.end() && off->second != "0")
      return link.name == "host";
  const GpuKind* gpu = gpu_of(summary);
  return gpu ? gpu->link == link.name : link.name != "host";
}

// Adds measured cells of the same batch, math and device count, strong scaling, over the same link.
void add_measured(const StudySummary& summary, const LinkModel& link, ScalingPrediction& prediction) {
  if (!has_link(summary, link)) return;
  for (const StudyCell& cell : summary.cells)
    if (cell.key.devices == prediction.devices && cell.key.global_batch == prediction.single.global_batch &&
        cell.key.scaling == "strong" && cell.key.math == prediction.single.math &&
        work_of(cell.key) == work_of(prediction.single) && cell.step_time_us.n > 0)
      prediction.measured.push_back({cell.key.strategy, cell.step_time_us.estimate().value,
                                     prediction.single_us / cell.step_time_us.estimate().value, cell.step_time_us.n});
}

}  // namespace

ScalingOutlook predict_scaling(const StudySummary& summary, const LinkModel& link, const ScalingQuestion& question) {
  ScalingOutlook outlook;
  outlook.device_kind = summary.device_kind;
  outlook.link = link;
  outlook.overlap = question.overlap;
  bool without_account = false;
  const GpuKind* gpu = gpu_of(summary);
  for (const Curve& curve : curves_of(summary, question))
    for (const auto& [batch, cell] : curve) {
      if (question.global_batch > 0 && question.global_batch != batch) continue;
      without_account |= backward_share(*cell) < 0;
      for (const int64_t devices : question.devices) {
        if (devices > batch) continue;  // some device would have no row
        outlook.predictions.push_back(predict(curve, *cell, devices, link, gpu, question.overlap));
        add_measured(summary, link, outlook.predictions.back());
      }
    }
  if (outlook.predictions.empty())
    throw Error(Cause::usage,
                fmt::format("no cell on one device{}{} that can be divided among so many",
                            question.model.empty() ? "" : " of model " + question.model,
                            question.global_batch > 0 ? fmt::format(" at global batch {}", question.global_batch) : ""),
                "a batch and model that the run has measured on one device, or `study mode=single`");
  if (question.overlap && without_account)
    outlook.notes.emplace_back("cells without a step account: nothing of their communication is taken to be hidden");
  return outlook;
}

}  // namespace amdahl
