#include "planner/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "planner/fit.h"
#include "planner/left_out.h"
#include "planner/predict.h"
#include "stats/line_fit.h"
#include "stats/percentile.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

constexpr double kConfidence95 = 0.95;

struct Row {
  const MeasuredIteration* measured;
  FitRow fit;
  double predicted_us = 0, relative_sd = 0;
  double error() const { return predicted_us / fit.step_us - 1; }
  double log_error() const { return std::log(predicted_us / fit.step_us); }
};

std::vector<Row> rows_of(const std::vector<MeasuredIteration>& measured) {
  std::vector<Row> rows;
  for (const MeasuredIteration& one : measured) {
    ModelSpec model = model_of(one);
    rows.push_back({&one, {make_workload(model, plan_of(one), megatron_profile()), one.iteration_ms * 1e3}});
  }
  return rows;
}

// Before a fit: nodes of so many GPUs.
Rates prior_of(const std::vector<Row>& rows) {
  Rates prior;
  prior.node_devices = static_cast<double>(rows.front().measured->node_gpus);
  return prior;
}

void predict_with(const Rates& rates, std::vector<Row*>& rows) {
  for (Row* row : rows) {
    const PlanAccount account = account_of(row->fit.work, rates, PipelineMethod::simulation);
    row->predicted_us = account.step_us();
    row->relative_sd = account.relative_sd;
  }
}

template <typename Rows>
std::vector<double> errors_of(const Rows& rows) {
  std::vector<double> errors;
  for (const auto& row : rows) {
    if constexpr (std::is_pointer_v<typename Rows::value_type>)
      errors.push_back(row->error());
    else
      errors.push_back(row.error());
  }
  return errors;
}

using Grouping = std::string (*)(const MeasuredIteration&);

using FitProgress = std::function<void(const std::string& what)>;

// Predicts each group by a fit to the others; the rows then hold these predictions.
std::vector<ErrorSummary> leave_out(std::vector<Row>& rows, Grouping group, const FitProgress& progress) {
  std::map<std::string, std::vector<Row*>> groups;
  for (Row& row : rows) groups[group(*row.measured)].push_back(&row);
  std::vector<ErrorSummary> summaries;
  if (groups.size() < 2) return summaries;
  for (auto& [name, members] : groups) {
    progress("without " + name);
    std::vector<const FitRow*> others;
    for (const Row& row : rows)
      if (group(*row.measured) != name) others.push_back(&row.fit);
    predict_with(fit_rates(others, prior_of(rows)), members);
    summaries.push_back(summarise_errors(name, errors_of(members)));
  }
  return summaries;
}

std::string layout_name(const MeasuredIteration& row) { return fmt::format("tp{} dp{} pp{}", row.tp, row.dp, row.pp); }

// Coverage with, for each layout, the factor that the other layouts' left-out errors give.
double cross_coverage(const std::vector<Row>& rows) {
  std::map<std::string, std::vector<const Row*>> groups;
  for (const Row& row : rows) groups[layout_name(*row.measured)].push_back(&row);
  double inside = 0;
  for (const auto& [name, members] : groups) {
    std::vector<double> errors, sds;
    for (const auto& [other, rest] : groups)
      if (other != name)
        for (const Row* row : rest) errors.push_back(row->log_error()), sds.push_back(row->relative_sd);
    const double factor = interval_factor(errors, sds, kConfidence95);
    for (const Row* row : members) inside += std::abs(row->log_error()) <= kNormal95 * factor * row->relative_sd;
  }
  return inside / static_cast<double>(rows.size());
}

struct Ranks {
  double mean = 0, worst = 1;
};

Ranks ranks_within(const std::vector<Row>& rows, bool global) {
  using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;
  std::map<Key, std::pair<std::vector<double>, std::vector<double>>> shapes;
  for (const Row& row : rows) {
    const MeasuredIteration& m = *row.measured;
    auto& [predicted, measured] =
        shapes[{m.hidden, m.layers, m.sequence, m.micro_batch, global ? m.global_batch : m.global_batch / m.dp}];
    predicted.push_back(row.predicted_us), measured.push_back(row.fit.step_us);
  }
  constexpr size_t kFewest = 4;
  Ranks ranks;
  int count = 0;
  for (const auto& [key, sides] : shapes) {
    if (sides.first.size() < kFewest) continue;
    const double rho = spearman(sides.first, sides.second);
    ranks.mean += rho, ranks.worst = std::min(ranks.worst, rho), ++count;
  }
  if (count > 0) ranks.mean /= count;
  return ranks;
}

// Data sheet of an A100: dense fp16 rate, HBM2e, NVLink 3 in one direction, and nothing else.
Rates data_sheet_rates() {
  Rates rates;
  rates.gemm_tflops = rates.batched_gemm_tflops = 312;
  rates.gemm_half_waves = 0, rates.unaligned_gemm = 1;
  rates.memory_gbps = 2039;
  rates.optimizer_ps = 30.0 / 2039 * 1e3;
  rates.launch_us = rates.softmax_launch_us = rates.head_us = rates.input_us = 0;
  rates.collective_launch_us = rates.collective_wait_us = 0;
  rates.tp_alpha_us = rates.dp_alpha_us = 0;
  rates.tp_gbps = rates.dp_gbps = rates.pp_gbps = 300;
  return rates;
}

std::vector<ErrorSummary> baselines_of(std::vector<Row> rows) {
  std::vector<double> per_flop;
  for (const Row& row : rows)
    per_flop.push_back(row.fit.step_us * static_cast<double>(row.measured->gpus) / row.fit.work.flops);
  const double rate = median_of(per_flop);
  std::vector<double> linear;
  for (const Row& row : rows)
    linear.push_back(rate * row.fit.work.flops / static_cast<double>(row.measured->gpus) / row.fit.step_us - 1);
  std::vector<Row*> all;
  for (Row& row : rows) all.push_back(&row);
  predict_with(data_sheet_rates(), all);
  return {summarise_errors("linear scaling, one constant", linear),
          summarise_errors("roofline of the data sheet", errors_of(rows))};
}

double error_in_sample(const std::vector<MeasuredIteration>& measured) {
  std::vector<Row> rows = rows_of(measured);
  std::vector<const FitRow*> every;
  std::vector<Row*> all;
  for (Row& row : rows) every.push_back(&row.fit), all.push_back(&row);
  predict_with(fit_rates(every, prior_of(rows)), all);
  return summarise_errors("", errors_of(rows)).mean;
}

// Of rows that do not say whether activations were computed again, what fits them better; in words, if there are any.
std::string assume_recomputation(std::vector<MeasuredIteration>& measured, std::vector<MeasuredIteration>& also) {
  const auto all_with = [](std::vector<MeasuredIteration> rows, int64_t value) {
    for (MeasuredIteration& row : rows)
      if (row.recompute < 0) row.recompute = value;
    return rows;
  };
  const auto unknown = [](const MeasuredIteration& row) { return row.recompute < 0; };
  std::string text;
  int64_t assumed = 0;
  if (std::any_of(measured.begin(), measured.end(), unknown)) {
    const double kept = error_in_sample(all_with(measured, 0)), again = error_in_sample(all_with(measured, 1));
    assumed = again < kept;
    text = fmt::format(
        "no column recompute: a mean error of {:.2f} % with activations that are kept, {:.2f} % with all computed "
        "again",
        100 * kept, 100 * again);
  }
  measured = all_with(measured, assumed), also = all_with(also, assumed);
  return text;
}

double bound_difference(const std::vector<Row>& rows, const Rates& rates) {
  double worst = 0;
  for (const Row& row : rows) {
    const double bound = account_of(row.fit.work, rates, PipelineMethod::bound).step_us();
    const double simulated = account_of(row.fit.work, rates, PipelineMethod::simulation).step_us();
    worst = std::max(worst, std::abs(bound / simulated - 1));
  }
  return worst;
}

}  // namespace

ModelSpec model_of(const MeasuredIteration& row) {
  constexpr int64_t kVocabulary = 50257;
  ModelSpec model;
  model.name = fmt::format("gpt h{} l{}", row.hidden, row.layers);
  model.input_width = row.sequence;
  model.input_shape = {row.sequence};
  model.loss = LossKind::softmax_cross_entropy;
  LayerSpec embedding;
  embedding.kind = LayerKind::embedding, embedding.units = row.hidden, embedding.vocabulary = kVocabulary;
  embedding.activation = Activation::none;
  model.layers.push_back(embedding);
  LayerSpec block;
  block.kind = LayerKind::transformer_block, block.units = row.hidden, block.heads = row.heads, block.causal = true;
  block.activation = Activation::none;
  for (int64_t i = 0; i < row.layers; ++i) model.layers.push_back(block);
  LayerSpec head;
  head.kind = LayerKind::token_head, head.vocabulary = kVocabulary, head.tied = true;
  head.activation = Activation::none;
  model.layers.push_back(head);
  return model;
}

ParallelPlan plan_of(const MeasuredIteration& row) {
  ParallelPlan plan;
  plan.strategy = row.dp > 1 ? "ddp" : "single";
  plan.mesh = {static_cast<int>(row.dp), static_cast<int>(row.tp), static_cast<int>(row.pp)};
  plan.global_batch = row.global_batch;
  plan.accumulate = row.global_batch / (row.dp * row.micro_batch);
  plan.overlap = false;
  if (row.recompute > 0) plan.recompute = static_cast<int64_t>(Recompute::block);
  return plan;
}

ErrorSummary errors_of_tool(const std::string& name, const std::vector<MeasuredIteration>& measured,
                            const std::vector<MeasuredIteration>& predicted) {
  std::vector<double> errors;
  for (size_t i = 0; i < std::min(measured.size(), predicted.size()); ++i) {
    MeasuredIteration same = predicted[i];
    same.iteration_ms = measured[i].iteration_ms;
    if (same != measured[i]) break;
    errors.push_back(predicted[i].iteration_ms / measured[i].iteration_ms - 1);
  }
  if (errors.size() != measured.size() || errors.size() != predicted.size())
    throw Error(Cause::usage, fmt::format("{}: row {} is of another iteration", name, errors.size() + 1),
                "the measured rows in their order, with predicted times");
  return summarise_errors(name, errors);
}

namespace {

constexpr Grouping kSizes[] = {
    [](const MeasuredIteration& m) { return fmt::format("hidden {}", m.hidden); },
    [](const MeasuredIteration& m) { return fmt::format("layers {}", m.layers); },
    [](const MeasuredIteration& m) { return fmt::format("micro-batch {}", m.micro_batch); },
    [](const MeasuredIteration& m) { return fmt::format("global batch {:>3}", m.global_batch); },
    [](const MeasuredIteration& m) { return fmt::format("tp {}", m.tp); },
    [](const MeasuredIteration& m) { return fmt::format("pp {}", m.pp); },
};

int count_groups(const std::vector<Row>& rows, Grouping group) {
  std::set<std::string> names;
  for (const Row& row : rows) names.insert(group(*row.measured));
  return names.size() < 2 ? 0 : static_cast<int>(names.size());
}

}  // namespace

PlanValidation validate_planner(const std::vector<MeasuredIteration>& known_of,
                                const std::vector<MeasuredIteration>& also_of, bool sizes,
                                const std::function<void(int done, int total, const std::string& left_out)>& progress) {
  PlanValidation result;
  std::vector<MeasuredIteration> measured = known_of, also = also_of;
  result.recompute = assume_recomputation(measured, also);
  std::vector<Row> rows = rows_of(measured), further = rows_of(also);
  result.rows = static_cast<int64_t>(rows.size());
  result.fitted_constants = num_fitted_constants();
  result.baselines = baselines_of(rows);
  std::vector<const FitRow*> every;
  std::vector<Row*> all, all_further;
  for (Row& row : rows) every.push_back(&row.fit), all.push_back(&row);
  for (Row& row : further) all_further.push_back(&row);
  int total = 1 + count_groups(rows, layout_name), done = 0;
  if (sizes)
    for (const Grouping group : kSizes) total += count_groups(rows, group);
  const FitProgress fit = [&](const std::string& what) { progress(done++, total, what); };
  fit("all rows");
  const Rates rates = fit_rates(every, prior_of(rows));
  result.calibration =
      calibration_of(rates, ConstantOrigin::fitted, fmt::format("least squares over {} steps", rows.size()));
  result.calibration.software = "megatron", result.calibration.math = "bf16", result.calibration.device_kind = "cuda";
  predict_with(rates, all);
  result.in_sample = summarise_errors("in the sample", errors_of(rows));
  result.bound_to_simulation = bound_difference(rows, rates);
  predict_with(rates, all_further);
  result.also = summarise_errors("further rows", errors_of(further));

  if (sizes)
    for (const Grouping group : kSizes)
      for (ErrorSummary& one : leave_out(rows, group, fit)) result.sizes.push_back(std::move(one));

  result.layouts = leave_out(rows, layout_name, fit);  // last, so that the rows keep these predictions
  result.left_out_layout = summarise_errors("layout left out", errors_of(rows));
  const Ranks replica = ranks_within(rows, false), global = ranks_within(rows, true);
  result.rank_by_replica_batch = replica.mean, result.rank_by_global_batch = global.mean;
  result.rank_worst = std::min(replica.worst, global.worst);
  std::vector<double> errors, sds;
  for (const Row& row : rows) errors.push_back(row.log_error()), sds.push_back(row.relative_sd);
  result.calibration.interval_factor = interval_factor(errors, sds, kConfidence95);
  result.coverage = cross_coverage(rows);
  for (const Row& row : further)
    result.also_coverage +=
        (std::abs(row.log_error()) <= kNormal95 * result.calibration.interval_factor * row.relative_sd) /
        static_cast<double>(further.size());
  return result;
}

}  // namespace amdahl
