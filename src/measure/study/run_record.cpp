#include "measure/study/cell.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "measure/study/step_account.h"

namespace amdahl {
namespace {

/// The idle share of the ranks' time from the first action of a step to the last one, beside the simulated one.
void add_pipeline(Record& record, const std::vector<PartTimes>& ranks) {
  double busy = 0, longest = 0;
  for (const PartTimes& times : ranks) {
    const double work = times.stages.forward + times.stages.backward;
    busy += work;
    longest = std::max(longest, work + times.stages.bubble + times.stages.transfers);
  }
  if (longest <= 0) return;
  record.series.push_back({"bubble_measured", "1", {1 - busy / (static_cast<double>(ranks.size()) * longest)}});
  record.series.push_back({"bubble_simulated", "1", {ranks.front().stages.simulated_bubble}});
  record.series.push_back({"bubble_simulated_actions", "1", {ranks.front().stages.action_bubble}});
  record.series.push_back({"bubble_simulated_messages", "1", {ranks.front().stages.message_bubble}});
  record.series.push_back({"pp_message", "us", {ranks.front().stages.message}});
}

// Adds the step account to a Record, see AccountedStep.
void add_account(Record& record, const std::vector<RankRun>& ranks, const ParallelPlan& plan) {
  std::vector<PartTimes> times;
  for (const RankRun& rank : ranks) times.push_back(rank.parts);
  const AccountedStep account = account_step(times);
  if (account.step <= 0) return;  // a brief study accounts in the first run
  for (Series& series : account_series(account)) record.series.push_back(std::move(series));
  const Mesh& mesh = plan.mesh;
  if (mesh.tp > 1 || mesh.pp > 1) {
    record.series.push_back({"dp_communication", "us", {account.dp_communication}});
    if (mesh.tp > 1) record.series.push_back({"tp_communication", "us", {account.tp_communication}});
    if (mesh.pp > 1) record.series.push_back({"pp_communication", "us", {account.pp_communication}});
    if (mesh.pp > 1) record.series.push_back({"bubble", "us", {account.bubble}});
    if (mesh.pp > 1) add_pipeline(record, times);
  }
  record.series.push_back({"account_by_differences", "1", {1}});  // earlier Records: by stamps
  if (account.launch_kernels > 0) {
    record.series.push_back({"launch_floor", "us", {account.launch_floor}});
    record.series.push_back({"launch_kernels", "1", {account.launch_kernels}});
  }
  if (account.fused_update > 0) record.series.push_back({"fused_update", "1", {account.fused_update}});
}

void add_health(Record& record, const std::vector<RankRun>& ranks) {
  const auto extreme = [&](double RankRun::*member) {
    double worst = -1;
    for (const RankRun& rank : ranks) worst = std::max(worst, rank.*member);
    return worst;
  };
  const auto add = [&](const char* name, const char* unit, double value) {
    if (value >= 0) record.series.push_back({name, unit, {value}});
  };
  double utilisation = 0;
  for (const RankRun& rank : ranks) utilisation += rank.utilisation_percent / static_cast<double>(ranks.size());
  add("utilisation", "percent", ranks.front().utilisation_percent < 0 ? -1 : utilisation);
  add("sm_clock", "MHz", extreme(&RankRun::clock_after_mhz));
  add("temperature", "C", extreme(&RankRun::temperature_c));
  add("power", "W", extreme(&RankRun::power_w));
  double energy = 0;
  for (const RankRun& rank : ranks) energy = rank.energy_j < 0 || energy < 0 ? -1 : energy + rank.energy_j;
  add("energy", "J", energy);  // of all devices
  if (extreme(&RankRun::clock_after_mhz) >= 0) add("throttle_reasons", "bits", extreme(&RankRun::throttle_reasons));
}

void add_contention(Record& record, const std::vector<RankRun>& ranks) {
  std::vector<ProcessLoad> loads;
  for (const RankRun& rank : ranks) loads.push_back(rank.host_load);
  const auto contention = contention_of(loads);
  if (!contention) return;
  record.series.push_back({"processor_others", "us", {contention->others_us}});
  record.series.push_back({"processor_wait", "us", {contention->waited_us}});
  record.series.push_back({"processor_stolen", "us", {contention->stolen_us}});
  if (contention->throttled_us > 0) record.series.push_back({"processor_throttled", "us", {contention->throttled_us}});
}

}  // namespace

void fill_record(Record& record, const std::vector<RankRun>& ranks, const ModelSpec& model, const ParallelPlan& plan,
                 int64_t modelled) {
  double step_us = 0, memory = 0;
  for (const RankRun& rank : ranks) {
    step_us = std::max(step_us, rank.step_us);
    memory = std::max(memory, rank.memory_peak_bytes);
  }
  record.series = {{"step_time", "us", {step_us}},
                   {"throughput", "samples/s", {static_cast<double>(plan.global_batch) / step_us * 1e6}},
                   {"loss_first", "1", {ranks.front().loss_first}},
                   {"loss_last", "1", {ranks.front().loss_last}},
                   {"memory_peak", "bytes", {memory}},
                   {"memory_modelled", "bytes", {static_cast<double>(modelled)}},
                   {"comm_bytes", "bytes", {ranks.front().comm_bytes}}};
  const double seconds = step_us / 1e6;
  record.series.push_back({"model_flop_rate", "TFLOP/s", {step_flops(model, plan.global_batch) / seconds / 1e12}});
  if (model.vocabulary() > 0)
    record.series.push_back(
        {"token_throughput", "tokens/s", {static_cast<double>(plan.global_batch * model.input_width) / seconds}});
  add_account(record, ranks, plan);
  add_health(record, ranks);
  add_contention(record, ranks);
  const RankRun& root = ranks.front();
  if (root.steps_behind > 0) record.series.push_back({"steps_behind", "1", {root.steps_behind}});
  if (root.loss_scale > 0) {
    record.series.push_back({"loss_scale", "1", {root.loss_scale}});
    record.series.push_back({"skipped_steps", "1", {root.skipped_steps}});
  }
  if (root.warmup_steps < 0) return;
  record.series.push_back({"warmup_steps", "1", {root.warmup_steps}});
  record.series.push_back({"warmup_time", "us", {root.warmup_us}});
  record.series.push_back({"warmup_drift", "percent", {root.warmup_drift_percent}});
  record.series.push_back({"warmup_settled", "1", {root.warmup_settled}});
  record.series.push_back({"warmup_rehearsals", "1", {root.warmup_rehearsals}});
}

}  // namespace amdahl
