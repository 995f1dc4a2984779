// The terms of one plan, each with its formula, inputs and source.
#include <fmt/format.h>

#include <utility>

#include "base/number_text.h"
#include "planner/predict.h"
#include "planner/rank.h"
#include "planner/terms.h"

namespace amdahl {
namespace {

class Explanation {
 public:
  Explanation(const Calibration& calibration, PlanOutcome& outcome) : calibration_(calibration), outcome_(outcome) {}

  /// `constants`: names of the calibration's constants, which also give the source.
  void add(const char* name, double us, const char* formula, const std::string& counts,
           const std::vector<const char*>& constants) {
    ExplainedTerm term{name, formula, counts, "", us};
    std::vector<std::pair<std::string, std::string>> sources;  // source -> names
    for (const char* constant : constants) {
      const CalibrationConstant* found = calibration_.find(constant);
      if (!found) continue;
      term.inputs +=
          fmt::format("{}{} = {}{}{}", term.inputs.empty() ? "" : ", ", found->name, format_number(found->value),
                      found->unit == "1" ? "" : " ", found->unit == "1" ? "" : found->unit);
      const std::string source = fmt::format("{}, {}", to_string(found->origin), found->source);
      if (sources.empty() || sources.back().first != source) sources.emplace_back(source, "");
      sources.back().second += (sources.back().second.empty() ? "" : ", ") + found->name;
    }
    for (const auto& [source, names] : sources)
      term.source += fmt::format("{}{}: {}", term.source.empty() ? "" : "; ", names, source);
    outcome_.terms.push_back(std::move(term));
  }

 private:
  const Calibration& calibration_;
  PlanOutcome& outcome_;
};

StageWork work_of_rank(const Workload& work, int rank) {
  StageWork sum;
  for (size_t s = 0; s < work.stages.size(); ++s) {
    const StageWork& stage = work.stages[s];
    if (work.mesh.pp > 1 && rank_of_stage(work.schedule, work.mesh.pp, static_cast<int>(s)) != rank) continue;
    sum.layers.insert(sum.layers.end(), stage.layers.begin(), stage.layers.end());
    sum.parameters += stage.parameters;
  }
  return sum;
}

int products_of(const GemmWork& gemm, const LayerWork& layer) {
  return gemm.forward + (layer.has_input_gradient && gemm.input_gradient) + gemm.weight_gradient;
}

double gemm_flops(const StageWork& stage) {
  double sum = 0;
  for (const LayerWork& layer : stage.layers)
    for (const GemmWork& gemm : layer.gemms)
      sum += layer.repeats * products_of(gemm, layer) * 2 * gemm.m * gemm.n * gemm.k * gemm.count;
  return sum;
}

double sum_of(const StageWork& stage, double LayerWork::*member) {
  double sum = 0;
  for (const LayerWork& layer : stage.layers) sum += layer.repeats * layer.*member;
  return sum;
}

double collectives_of(const StageWork& stage) {
  double sum = 0;
  for (const LayerWork& layer : stage.layers)
    sum += layer.repeats * layer.collectives * (1 + layer.repeated_collectives);
  return sum;
}

/// What a stage's time of products has besides them: steps of sequences, and rows in kernels for few.
std::pair<double, double> outside_products(const StageWork& stage, const Rates& rates) {
  double sequences = 0, few_rows = 0;
  for (const LayerWork& layer : stage.layers) {
    sequences += layer.repeats * recurrent_us(layer.recurrent, rates);
    for (const GemmWork& gemm : layer.gemms) few_rows += layer.repeats * few_rows_us(gemm, rates);
  }
  return {sequences, few_rows};
}

std::string number(double value) { return format_number(value); }

}  // namespace

void explain_plan(const ModelSpec& model, const Calibration& calibration, const ParallelPlan& plan,
                  PlanOutcome& outcome) {
  const Workload work = make_workload(model, plan, profile_of(calibration));
  const Rates rates = rates_of(calibration);
  const std::vector<StageTime> stages = stage_times(work, rates), times = rank_times(work, stages);
  const PlanMemory memory = plan_memory(plan, model, memory_setting_of(calibration));
  outcome.explained.step = predict_workload(work, stages, memory, rates, calibration, PipelineMethod::simulation);
  outcome.explained.step.plan = plan;
  outcome.explained.text = format_plan(plan);
  const PlanAccount& account = outcome.explained.step.account;
  size_t busiest = 0;
  for (size_t i = 0; i < times.size(); ++i)
    if (times[i].total_us() > times[busiest].total_us()) busiest = i;
  const StageTime& time = times[busiest];
  const StageWork stage = work_of_rank(work, static_cast<int>(busiest));
  const double slowed = account.slowed_us;
  const double m = (account.compute_us - slowed) / time.compute_us;  // micro-batches, and by what sharing slows them
  Explanation explain(calibration, outcome);
  const auto [sequences, few_rows] = outside_products(stage, rates);
  explain.add("matrix products", m * (time.gemm_us - sequences - few_rows),
              "micro-batches x sum 2 m n k / rate x (1 + half_waves / waves)",
              fmt::format("{} micro-batches, {} GFLOP each", work.micro_batches, number(gemm_flops(stage) / 1e9)),
              {"gemm_tflops", "gemm_half_waves", "gemm_units", "gemm_tile"});
  if (sequences > 0)
    explain.add("steps of sequences", m * sequences, "micro-batches x 2 x steps x turns x step of the kernel", "",
                {"recurrent_us"});
  if (few_rows > 0)
    explain.add("kernels for few rows", m * few_rows, "micro-batches x layers x 2 kernels x rows x time of one", "",
                {"few_row_ns"});
  if (time.attention_us > 0)
    explain.add("attention", m * time.attention_us,
                "micro-batches x (12 x batch x steps^2 x head size / rate + score bytes / bandwidth)", "",
                {"batched_gemm_tflops", "memory_gbps"});
  explain.add("element-wise kernels", m * time.memory_us, "micro-batches x bytes / bandwidth",
              fmt::format("{} MB each", number(sum_of(stage, &LayerWork::bytes) / 1e6)), {"memory_gbps"});
  explain.add("waiting for the host", account.gaps_us, "micro-batches x ((device^k + host^k)^(1/k) - device) + step",
              fmt::format("host {} us each", number(time.host_us)),
              {"launch_us", "event_us", "queue_exponent", "step_us"});
  if (work.mesh.tp > 1)
    explain.add("all-reduces of activations (tp)", account.exposed_tp_us,
                "micro-batches x collectives x (alpha + 2 (n - 1) hop + 2 (n - 1) / n bytes / rate)",
                fmt::format("{} collectives, n = {}", number(collectives_of(stage)), work.mesh.tp),
                {"tp_alpha_us", "hop_us", "tp_gbps", "net_us", "net_gbps"});
  if (work.mesh.pp > 1) {
    explain.add(
        "pipeline bubble", account.bubble_us, "simulated makespan without transfers - work of the busiest stage",
        fmt::format("{}, {} stages, {} micro-batches", to_string(work.schedule), work.mesh.pp, work.micro_batches), {});
    explain.add("transfers (pp)", account.exposed_pp_us, "simulated makespan - that without transfers",
                fmt::format("{} MB each", number(work.transfer_bytes / 1e6)), {"pp_alpha_us", "pp_gbps"});
  }
  if (work.mesh.dp > 1) {
    const bool threads = rates.shared_cores > 0;
    const std::string hidden = work.overlap ? ", less what backward hides" : "";
    const std::string formula =
        threads ? "alpha + (calls - 1) alpha of tp + passes x 2 (n - 1) / n bytes / rate"
                : "(reductions + gathers) / 2 x (alpha + 2 (n - 1) hop + 2 (n - 1) / n bytes / rate)";
    const std::string counts =
        threads ? fmt::format("{} calls, {} passes", number(work.data_calls()), number(work.thread_passes()))
                : fmt::format("{} reductions, {} gathers", number(work.reductions()), number(work.gathers()));
    std::vector<const char*> constants{"dp_alpha_us", "hop_us", "dp_gbps", "interference"};
    if (threads) constants.insert(constants.begin() + 1, "tp_alpha_us");
    explain.add("gradients and parameters (dp)", account.exposed_dp_us, (formula + hidden).c_str(),
                fmt::format("{} MB, n = {}, {}, hidden {} us", number(stage.parameters * work.gradient_bytes / 1e6),
                            work.mesh.dp, counts, number(account.hidden_dp_us)),
                constants);
  }
  explain.add("optimizer", account.optimizer_us, "launch + parameters x time of one / (dp with ZeRO)",
              fmt::format("{} parameters", number(stage.parameters)), {"launch_us", "optimizer_ps"});
  if (slowed > 0)
    explain.add("backward slowed by communication", slowed, "interference x hidden communication", "",
                {"interference"});
}

}  // namespace amdahl
