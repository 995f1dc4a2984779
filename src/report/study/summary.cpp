#include "report/study/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "amdahl/error.h"
#include "base/contention.h"
#include "base/limited_devices.h"
#include "plan/cell_axes.h"
#include "report/common/process_spread.h"
#include "report/common/record_checks.h"
#include "report/common/words.h"
#include "report/study/cells.h"
#include "report/study/findings.h"
#include "report/study/method.h"
#include "report/study/one_device.h"
#include "report/study/serial_fraction.h"
#include "spec/run_folder.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

constexpr int64_t kLargestCount = int64_t{1} << 62, kMostDevices = 1 << 20;

template <typename T>
T axis(const Record& record, const char* name, bool required) {
  const auto found = record.axes.find(name);
  if (found != record.axes.end())
    if (const T* value = std::get_if<T>(&found->second)) return *value;
  if (!required && found == record.axes.end()) return T{};
  throw damaged_record(
      record,
      fmt::format("{} axis '{}'", found == record.axes.end() ? "lacks" : "has a value of another type in", name));
}

// An integer axis within [minimum, maximum], as later arithmetic requires.
int64_t count_axis(const Record& record, const char* name, int64_t minimum, int64_t maximum, bool required) {
  const int64_t count = axis<int64_t>(record, name, required);
  if (count == 0 && !required) return 0;
  if (count < minimum || count > maximum)
    throw damaged_record(record, fmt::format("has {} in axis '{}', which counts from {}", count, name, minimum));
  return count;
}

double required_value(const Record& record, const char* series) {
  const auto value = record.value(series);
  if (!value) throw damaged_record(record, fmt::format("is ok and lacks a value of '{}'", series));
  require_speed(record, series, *value);
  return *value;
}

std::vector<double> values_of(const std::vector<const Record*>& records, const char* series) {
  std::vector<double> values;
  for (const Record* record : records)
    if (const auto value = record->value(series)) values.push_back(*value);
  return values;
}

std::optional<double> mean_value(const std::vector<const Record*>& records, const char* series) {
  const std::vector<double> values = values_of(records, series);
  if (values.empty()) return std::nullopt;
  return mean_of(values);
}

/// A rate whose work per step is the same in all runs, at this step time.
std::optional<double> rate_at(const Estimate& step_us, const std::vector<const Record*>& records, const char* series) {
  for (const Record* record : records)
    if (const auto rate = record->value(series)) return *rate * record->value("step_time").value_or(0) / step_us.value;
  return std::nullopt;
}

/// NVML counts over up to a second: a shorter run says what was before it.
std::optional<double> utilisation_of(std::vector<const Record*> records) {
  constexpr double kWindowUs = 1e6;
  std::erase_if(records, [](const Record* record) {
    return static_cast<double>(axis<int64_t>(*record, "steps", false)) * record->value("step_time").value_or(0) <
           kWindowUs;
  });
  return mean_value(records, "utilisation");
}

/// The runs with an account, without the fastest and the slowest quarter of them by step time: the step time of a cell
/// is a median, which these do not move either.
std::vector<const Record*> accounted_runs(std::vector<const Record*> records) {
  std::erase_if(records, [](const Record* record) {
    return !record->value("account_step") || !(record->value("step_time").value_or(0) > 0);
  });
  std::stable_sort(records.begin(), records.end(),
                   [](const Record* a, const Record* b) { return *a->value("step_time") < *b->value("step_time"); });
  const auto quarter = static_cast<std::ptrdiff_t>(records.size() / 4);
  return {records.begin() + quarter, records.end() - quarter};
}

/// The account of a step of `step_us`: means of shares add up, as medians of times would not.
std::optional<StepAccount> account_of(const std::vector<const Record*>& all, double step_us) {
  const std::vector<const Record*> records = accounted_runs(all);
  if (records.empty()) return std::nullopt;
  const auto mean = [&](const char* series) { return mean_value(records, series).value_or(0.0); };
  const auto part = [&](const char* series) {
    double shares = 0;
    for (const Record* record : records) shares += record->value(series).value_or(0) / *record->value("step_time");
    return step_us * shares / static_cast<double>(records.size());
  };
  StepAccount account;
  account.n = static_cast<int64_t>(records.size()), account.measured_us = step_us;
  account.step_us = part("account_step");
  account.forward_us = part("forward");
  account.backward_us = part("backward");
  account.compute_us = part("compute");
  account.exposed_communication_us = part("exposed_communication");
  account.waiting_us = part("waiting");
  account.launch_gaps_us = part("launch_gaps");
  account.launch_floor_us = mean("launch_floor");  // of empty kernels: no part of the step
  account.launch_kernels = mean("launch_kernels");
  account.input_us = part("input");
  account.optimizer_us = part("optimizer");
  account.total_communication_us = part("total_communication");
  account.comm_bytes = mean("comm_bytes");
  account.noise_us = part("account_noise");
  for (const auto& [series, method] : {std::pair{"account_by_differences", AccountMethod::differences},
                                       std::pair{"account_by_partition", AccountMethod::partition}})
    if (values_of(records, series).size() == records.size()) account.method = method;
  account.fused_update = mean("fused_update") > 0;
  return account;
}

StudyCell cell_of(const CellKey& key, const CellRuns& runs) {
  StudyCell cell;
  cell.key = key;
  const Record& any = runs.ok.empty() ? *runs.others.front() : *runs.ok.front();
  cell.origin = any.origin;
  cell.steps = axis<int64_t>(any, "steps", false);
  cell.warmup = axis<int64_t>(any, "warmup", false);
  for (const Record* record : runs.others)
    ++(record->status.kind == Status::Kind::waived ? cell.num_waived : cell.num_failed);
  if (runs.ok.empty()) {
    cell.status = any.status;
    return cell;
  }
  cell.step_time_us = summarise_processes(runs.step_time_by_process);
  if (const std::vector<double> peaks = values_of(runs.ok, "memory_peak"); !peaks.empty())
    cell.memory_peak_bytes = *std::max_element(peaks.begin(), peaks.end());
  cell.memory_modelled_bytes = mean_value(runs.ok, "memory_modelled");
  cell.tokens_per_s = rate_at(cell.step_time_us.estimate(), runs.ok, "token_throughput");
  if (const auto rate = rate_at(cell.step_time_us.estimate(), runs.ok, "model_flop_rate"))
    cell.model_flops_per_s = *rate * 1e12;
  cell.model_flop_share = model_flop_share(cell, any.provenance);
  cell.utilisation_percent = utilisation_of(runs.ok);
  cell.loss_first = mean_value(runs.ok, "loss_first");
  cell.loss_last = mean_value(runs.ok, "loss_last");
  const auto median_value = [&](const char* name) -> std::optional<double> {
    const std::vector<double> values = values_of(runs.ok, name);
    return values.empty() ? std::nullopt : std::optional(median_of(values));
  };
  cell.bubble_measured = median_value("bubble_measured");
  cell.bubble_simulated = median_value("bubble_simulated");
  cell.bubble_simulated_messages = median_value("bubble_simulated_messages");
  cell.pp_message_us = median_value("pp_message");
  for (const Series& series : any.series) {
    if (series.name == "share_rows") cell.share_rows = series.samples;
    if (series.name == "device_speed")
      cell.speed_bound = std::accumulate(series.samples.begin(), series.samples.end(), 0.0);
  }
  cell.account = account_of(runs.ok, cell.step_time_us.estimate().value);
  return cell;
}

// Throws or notes when there is more than one distinct value: such runs are not pooled unless allowed.
void require_homogeneous(const std::set<std::string>& values, std::string_view what, bool allowed,
                         StudySummary& summary) {
  if (values.size() < 2) return;
  const std::string difference = fmt::format("{} differ: {}", what, fmt::join(values, "; "));
  if (!allowed)
    throw Error(Cause::usage, fmt::format("these records cannot be pooled into one study: {}", difference),
                "one run folder per machine, and `amdahl compare` between them");
  summary.notes.push_back(difference + " (pooled because the caller allowed it)");
}

StudyCells pool(const std::vector<Record>& records, const StudyOptions& options, StudySummary& summary) {
  StudyCells cells;
  std::set<std::string> kinds, hosts, names;
  std::set<std::pair<CellKey, int64_t>> runs_seen;
  for (const Record& record : records) {
    if (record.kind != "study-run") continue;
    kinds.insert(record.provenance.device_kind);
    hosts.insert(record.provenance.host);
    names.insert(device_names_of(record.provenance));
    const CellKey key = cell_key_of(record);
    CellRuns& runs = cells[key];
    if (record.status.kind != Status::Kind::ok) {
      runs.others.push_back(&record);
      continue;
    }
    const int64_t run = axis<int64_t>(record, "run", true);
    if (!runs_seen.insert({key, run}).second)
      throw damaged_record(record, fmt::format("is run {} of {}, which is there already", run, format_cell(key)));
    runs.ok.push_back(&record);
    runs.step_time_us.push_back(required_value(record, "step_time"));
    runs.step_time_by_process[process_of(record)].push_back(runs.step_time_us.back());
  }
  require_homogeneous(kinds, "device kinds", false, summary);
  require_homogeneous(hosts, "hosts", options.allow_several_hosts, summary);
  require_homogeneous(names, "device names", options.allow_several_hosts, summary);
  if (!kinds.empty()) summary.device_kind = *kinds.begin();
  return cells;
}

void note_missing_runs(const StudyCells& cells, StudySummary& summary) {
  for (const auto& [key, runs] : cells) {
    std::map<std::pair<Status::Kind, std::string>, int> reasons;
    for (const Record* record : runs.others) ++reasons[{record->status.kind, record->status.reason}];
    for (const auto& [reason, count] : reasons)
      summary.notes.push_back(fmt::format("{}: {} of {} run{} {}: {}", format_cell(key), count,
                                          runs.ok.size() + runs.others.size(),
                                          runs.ok.size() + runs.others.size() == 1 ? "" : "s",
                                          reason.first == Status::Kind::waived ? "waived" : "failed",
                                          reason.second.empty() ? "no reason recorded" : reason.second));
  }
}

// Flags cells during whose runs the state of the GPU changed.
void note_card_state(const StudyCells& cells, StudySummary& summary) {
  for (const auto& [key, runs] : cells) {
    double lowest = 0, highest = 0;
    int throttled = 0;
    for (const Record* record : runs.ok) {
      if (const auto clock = record->value("sm_clock")) {
        lowest = lowest == 0 ? *clock : std::min(lowest, *clock);
        highest = std::max(highest, *clock);
      }
      const auto reasons = record->value("throttle_reasons");
      throttled += reasons && was_throttled(*reasons);
    }
    if (lowest > 0 && highest > lowest * (1 + kClockTolerance))
      summary.notes.push_back(fmt::format("{}: the SM clock moved between {:.0f} and {:.0f} MHz over its runs",
                                          format_cell(key), lowest, highest));
    if (throttled > 0)
      summary.notes.push_back(
          fmt::format("{}: the card was throttled in {} of {} runs", format_cell(key), throttled, runs.ok.size()));
  }
}

/// Flags cells whose steps the limit of a control group stopped: their times say more about the limit.
void note_processor_limit(const StudyCells& cells, StudySummary& summary) {
  constexpr double kNoticed = 0.01;  // share of a processor
  const CellKey* worst = nullptr;
  double most = 0;
  size_t num_throttled = 0;
  for (const auto& [key, runs] : cells) {
    double throttled_us = 0, timed_us = 0;
    for (const Record* record : runs.ok) {
      const auto steps = record->axes.find("steps");
      const auto* count = steps == record->axes.end() ? nullptr : std::get_if<int64_t>(&steps->second);
      timed_us += record->value("step_time").value_or(0) * static_cast<double>(count ? *count : 0);
      throttled_us += record->value("processor_throttled").value_or(0);
    }
    if (timed_us <= 0 || throttled_us <= kNoticed * timed_us) continue;
    ++num_throttled;
    if (throttled_us / timed_us > most) worst = &key, most = throttled_us / timed_us;
  }
  if (num_throttled == 0) return;
  summary.warnings.push_back(fmt::format(
      "{}: the job was throttled: its control group's limit of processors stopped threads for {:.2f} s of each second "
      "of its steps, in {} of {} cells; compare nothing with it, and raise the limit (cpu.max) or use fewer devices",
      format_cell(*worst), most, num_throttled, cells.size()));
}

// Flags cells of CPU virtual devices during whose steps other programs used the CPUs.
void note_busy_host(const StudyCells& cells, StudySummary& summary) {
  constexpr double kNoticed = 0.05;  // share of one CPU
  const CellKey* busiest = nullptr;
  double most = 0;
  size_t num_busy = 0;
  for (const auto& [key, runs] : cells) {
    Contention contention;
    double timed_us = 0;
    for (const Record* record : runs.ok) {
      const auto others = record->value("processor_others"), waited = record->value("processor_wait"),
                 stolen = record->value("processor_stolen"), step = record->value("step_time");
      const auto steps = record->axes.find("steps");
      if (!others || !waited || !stolen || !step || steps == record->axes.end()) continue;
      const auto* count = std::get_if<int64_t>(&steps->second);
      if (!count) continue;
      contention.others_us += *others;
      contention.waited_us += *waited;
      contention.stolen_us += *stolen;  // what a limit took has a note of its own
      timed_us += *step * static_cast<double>(*count);
    }
    if (timed_us <= 0 || contention.lost_us() <= kNoticed * timed_us) continue;
    ++num_busy;
    if (const double cores = contention.lost_us() / timed_us; cores > most) busiest = &key, most = cores;
  }
  if (num_busy == 0) return;
  const std::string others =
      num_busy == 1 ? "" : fmt::format(" (in {} of {} cells they took less)", num_busy - 1, cells.size());
  summary.warnings.push_back(
      fmt::format("{}: the host was busy: other programs took {:.2f} CPU cores while its steps were timed{}",
                  format_cell(*busiest), most, others));
}

std::string conclude(const StudySummary& summary) {
  const size_t total = summary.comparisons.size();
  if (summary.one_device) return one_device_headline(summary);
  const std::string_view many = device_text(summary.device_kind).many;
  if (total == 0) return fmt::format("Nothing to decide: no cell on several {} has a one-device baseline.", many);
  size_t counts[4] = {}, too_few = 0;
  for (const StudyComparison& c : summary.comparisons)
    ++(c.test.level != TestLevel::none && has_too_few_runs(c.test) ? too_few
                                                                   : counts[static_cast<size_t>(c.recommendation)]);
  std::vector<std::string> parts;
  const auto add = [&](size_t count, const std::string& words) {
    if (count > 0)
      parts.push_back(count < total ? fmt::format("{} in {} of {} comparisons", words, count, total)
                      : total == 1  ? words + " in the one comparison"
                                    : fmt::format("{} in all {} comparisons", words, total));
  };
  for (Recommendation r :
       {Recommendation::multi_device, Recommendation::single_device, Recommendation::marginal, Recommendation::unclear})
    add(counts[static_cast<size_t>(r)], format_recommendation(r, summary.device_kind));
  add(too_few, "too few runs");
  std::string text = fmt::format("{}.", fmt::join(parts, ", "));
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  const auto empty = std::count_if(summary.cells.begin(), summary.cells.end(),
                                   [](const StudyCell& cell) { return cell.status.kind != Status::Kind::ok; });
  if (empty > 0) text += fmt::format(" {} cell{} gave no result.", empty, empty == 1 ? "" : "s");
  return text;
}

void collect_provenance(const std::vector<Record>& records, StudySummary& summary) {
  for (const Record& record : records) {
    if (record.kind != "study-run") continue;
    const bool known = std::any_of(summary.provenance.begin(), summary.provenance.end(), [&](Provenance p) {
      p.start_time = record.provenance.start_time;
      return p == record.provenance;
    });
    if (!known) summary.provenance.push_back(record.provenance);
  }
}

}  // namespace

CellKey cell_key_of(const Record& record) {
  const bool required =
      record.status.kind == Status::Kind::ok;  // a cell that failed at an early stage may lack some of its axes
  CellKey key;
  key.model = axis<std::string>(record, "model", true);
  key.num_parameters = count_axis(record, "num_parameters", 0, kLargestCount, required);
  key.scaling = axis<std::string>(record, "scaling", required);
  key.math = axis<std::string>(record, "math", required);
  key.global_batch = count_axis(record, "global_batch", 1, kLargestCount, required);
  key.devices = count_axis(record, "devices", 1, kMostDevices, true);
  key.strategy = axis<std::string>(record, "strategy", required);
  key.launch = axis<std::string>(record, "launch", required);
  key.backend = axis<std::string>(record, "backend", required);
  key.optimizer = axis<std::string>(record, "optimizer", required);
  const auto name = [](const PlanField& field) { return std::string(field.name); };
  key.plan = plan_of_axes(
      AxisReaders{[&](const PlanField& field) {
                    return count_axis(record, name(field).c_str(), field.least, kLargestCount, required);
                  },
                  [&](const PlanField& field) { return axis<bool>(record, name(field).c_str(), required); },
                  [&](const PlanField& field) {
                    const auto text = axis<std::string>(record, name(field).c_str(), required);
                    return choice_of(field, text, Cause::store_corrupt, "a record's axis ");
                  },
                  [&](const PlanField& field) { return record.axes.count(name(field)) > 0; }});
  key.data = axis<std::string>(record, "data", required);
  return key;
}

StudySummary summarise_study(const std::vector<Record>& records, const StudyOptions& options) {
  StudySummary summary;
  const StudyCells cells = pool(records, options, summary);
  for (const auto& [key, runs] : cells) summary.cells.push_back(cell_of(key, runs));
  note_missing_runs(cells, summary);
  note_card_state(cells, summary);
  note_processor_limit(cells, summary);
  note_busy_host(cells, summary);
  compare_study_cells(cells, summary);
  summary.serial_fractions = serial_fractions(summary);
  summary.one_device = summarise_one_device(summary.cells, cells);
  collect_provenance(records, summary);
  for (const std::string& finding : study_findings(summary)) summary.notes.push_back(finding);
  summary.conclusion = conclude(summary);
  return summary;
}

const StudyCell* find_cell(const StudySummary& summary, const CellKey& key) {
  for (const StudyCell& cell : summary.cells)
    if (cell.key == key) return &cell;
  return nullptr;
}

}  // namespace amdahl
