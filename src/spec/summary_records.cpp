// Converts a study's summary.json to Records: of the runs only median, mean, standard deviation and number are known.
#include <fmt/format.h>

#include "base/record_values.h"
#include "plan/cell_axes.h"
#include "spec/json.h"
#include "spec/peer_json.h"

namespace amdahl {
namespace {

struct NumberRow {
  const char* suffix;
  double SampleSummary::*value;
};
constexpr NumberRow kNumbers[] = {{"_sd", &SampleSummary::sd},
                                  {"_median", &SampleSummary::median},
                                  {"_mad", &SampleSummary::mad},
                                  {"_minimum", &SampleSummary::minimum},
                                  {"_maximum", &SampleSummary::maximum},
                                  {"_process_median", &SampleSummary::process_median},
                                  {"_process_sd", &SampleSummary::process_sd},
                                  {"_mean_without_outliers", &SampleSummary::mean_without_outliers},
                                  {"_sd_without_outliers", &SampleSummary::sd_without_outliers}};

struct IntervalRow {
  const char* suffix;
  std::optional<Interval> SampleSummary::*value;
};
constexpr IntervalRow kIntervals[] = {{"_ci", &SampleSummary::ci},
                                      {"_median_ci", &SampleSummary::median_ci},
                                      {"_ci_without_outliers", &SampleSummary::ci_without_outliers}};

void add_summary(Record& record, const std::string& name, const char* unit, const SampleSummary& summary) {
  if (summary.n == 0) return;
  record.series.push_back({name, unit, {summary.mean}});
  record.series.push_back({name + "_n", "1", {static_cast<double>(summary.n)}});
  record.series.push_back({name + "_num_processes", "1", {static_cast<double>(summary.num_processes)}});
  record.series.push_back({name + "_num_outliers", "1", {static_cast<double>(summary.num_outliers)}});
  for (const NumberRow& row : kNumbers) record.series.push_back({name + row.suffix, unit, {summary.*row.value}});
  for (const IntervalRow& row : kIntervals)
    if (const auto& interval = summary.*row.value)
      record.series.push_back({name + row.suffix, unit, {interval->low, interval->high}});
}

/// Of runs whose rates are not kept: that of the step times, with their relative spread.
SampleSummary throughput_of(const StudyCell& cell) {
  const SampleSummary& time = cell.step_time_us;
  SampleSummary rate;
  if (time.n == 0) return rate;
  const Estimate estimate = cell.throughput();
  rate.n = time.n;
  rate.num_processes = time.num_processes;
  rate.mean = rate.median = rate.process_median = estimate.value;
  rate.median_ci = estimate.ci;
  rate.sd = estimate.value * time.sd / time.mean;
  if (time.num_processes > 1) rate.process_sd = estimate.value * time.process_sd / time.process_median;
  return rate;
}

Record record_of(const StudyCell& cell, const Provenance& provenance) {
  Record record;
  record.kind = "study-run";
  record.status = cell.status;
  record.origin = cell.origin;
  record.provenance = provenance;
  record.axes = axes_of(cell.key);
  record.axes["steps"] = cell.steps;
  record.axes["warmup"] = cell.warmup;
  add_summary(record, "step_time", "us", cell.step_time_us);
  add_summary(record, "throughput", "samples/s", throughput_of(cell));
  return record;
}

}  // namespace

Measurements read_study_summary(const std::string& text, const std::string& origin) {
  Measurements found{"study", "amdahl", {}, {}, false, summary_from_json(text, origin)};
  const StudySummary& summary = *found.summary;
  found.notes = summary.notes;
  if (summary.provenance.empty())
    throw Error(Cause::store_corrupt, fmt::format("{}: field 'provenance' is empty", origin),
                "the run folder, from which amdahl report makes a summary.json again");
  const Provenance& provenance = summary.provenance.front();
  found.tool = "amdahl " + provenance.tool_version;
  for (size_t i = 0; i < summary.cells.size(); ++i) {
    Record record = record_of(summary.cells[i], provenance);
    record.source = fmt::format("{}: cells[{}]", origin, i);
    add_record(found, std::move(record), origin);
  }
  if (found.records.empty())
    throw Error(Cause::usage, fmt::format("{}: field 'cells' is empty", origin), "a study that measured something");
  return found;
}

std::optional<SampleSummary> summary_in(const Record& record, const std::string& series) {
  const std::vector<double>&mean = samples_of(record, series), &n = samples_of(record, series + "_n");
  if (mean.empty() || n.empty() || record.kind != "study-run") return std::nullopt;
  SampleSummary summary;
  summary.n = static_cast<int64_t>(n.front());
  summary.mean = mean.front();
  summary.num_processes = static_cast<int64_t>(record.value(series + "_num_processes").value_or(1));
  summary.num_outliers = static_cast<int64_t>(record.value(series + "_num_outliers").value_or(0));
  for (const NumberRow& row : kNumbers) summary.*row.value = record.value(series + row.suffix).value_or(0);
  for (const IntervalRow& row : kIntervals)
    if (const std::vector<double>& ends = samples_of(record, series + row.suffix); ends.size() == 2)
      summary.*row.value = Interval{ends.front(), ends.back()};
  return summary;
}

}  // namespace amdahl
