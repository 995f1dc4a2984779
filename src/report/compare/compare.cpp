#include "report/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "amdahl/error.h"
#include "base/limited_devices.h"
#include "base/record_values.h"
#include "plan/gpu_kinds.h"
#include "report/common/process_spread.h"
#include "report/common/record_checks.h"
#include "report/common/settings.h"
#include "report/common/words.h"
#include "report/compare/pairing.h"
#include "report/study/summary.h"
#include "spec/measurements.h"
#include "stats/compare.h"
#include "stats/processes.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

using AxisSet = std::set<std::string>;

/// The data of one side for a cell: all samples, or only their summary.
struct CellSamples {
  ProcessSamples processes;
  std::optional<SampleSummary> summarised;
  Origin origin = Origin::measured;
  std::optional<double> share_us;  // MFU times step time

  SampleSummary summary() const { return summarised ? *summarised : summarise_processes(processes); }
};

struct Side {
  std::map<std::pair<std::string, Axes>, CellSamples> cells;  // cells by kind and matched axes
  int64_t num_without_result = 0;
};

std::string axes_text(const Axes& axes) {
  // For a study, the axes named first; others are named only if they differ, and are in the JSON.
  static constexpr const char* kNamed[] = {"model", "scaling", "math", "global_batch", "devices", "strategy", "launch"};
  std::vector<std::string> parts;
  if (axes.contains("model")) {
    for (const char* name : kNamed)
      if (const auto found = axes.find(name); found != axes.end()) parts.push_back(setting_text(name, found->second));
  } else {
    for (const auto& [name, value] : axes)
      if (const std::string text = setting_text(name, value); !text.empty()) parts.push_back(text);
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

template <typename Get>
std::set<std::string> distinct(const std::vector<Record>& records, Get get) {
  std::set<std::string> values;
  for (const Record& record : records)
    if (record.status.kind == Status::Kind::ok) values.insert(get(record));
  return values;
}

std::string axis_or_empty(const Record& record, const char* name) {
  const auto found = record.axes.find(name);
  return found == record.axes.end() ? std::string() : axis_text(found->second);
}

/// "NAME by TOOL: VALUES" of both sides.
std::string sides(const CompareOptions& options, const std::set<std::string>& a, const std::set<std::string>& b) {
  const auto side = [](const std::string& name, const std::string& tool, const std::set<std::string>& values) {
    return fmt::format("{} ({}{})", fmt::join(values, ", "), name, tool.empty() ? "" : " by " + tool);
  };
  return fmt::format("{} against {}", side(options.name_a, options.tool_a, a), side(options.name_b, options.tool_b, b));
}

// Rejects or notes differences between two runs. Axes whose values are disjoint are added to `ignored` when that is
// allowed.
void require_homogeneous(const std::vector<Record>& a, const std::vector<Record>& b, const CompareOptions& options,
                         AxisSet& ignored, RunComparison& result) {
  const auto kind = [](const Record& r) { return r.provenance.device_kind; };
  const std::set<std::string> kinds_a = distinct(a, kind), kinds_b = distinct(b, kind);
  std::set<std::string> kinds = kinds_a;
  kinds.insert(kinds_b.begin(), kinds_b.end());
  if (kinds.size() > 1)
    throw Error(Cause::usage,
                fmt::format("device kinds are never compared with each other: {}", sides(options, kinds_a, kinds_b)),
                "two runs on the same kind of device");
  result.device_kind = kinds.empty() ? "" : *kinds.begin();

  const auto difference = [&](const char* what, const std::set<std::string>& left, const std::set<std::string>& right) {
    return fmt::format("{} differs: {}", what, sides(options, left, right));
  };
  const auto check = [&](const char* what, const std::set<std::string>& left, const std::set<std::string>& right) {
    if (left == right) return;
    if (!options.allow_unlike)
      throw Error(Cause::usage, difference(what, left, right),
                  "`allow_unlike`, if the difference is what you ask about");
    result.notes.push_back(difference(what, left, right));
  };
  const auto host = [](const Record& r) { return r.provenance.host; };
  // Other tools write device names differently.
  const bool own = std::none_of(a.begin(), a.end(), is_foreign) && std::none_of(b.begin(), b.end(), is_foreign);
  const auto names = [&](const Record& r) { return own ? device_names_of(r.provenance) : std::string(); };
  check("host", distinct(a, host), distinct(b, host));
  check("device name", distinct(a, names), distinct(b, names));
  for (const char* axis : {"math", "launch"}) {
    if (std::any_of(options.pairs.begin(), options.pairs.end(), [&](const auto& pair) { return pair.axis == axis; }))
      continue;  // the caller paired the values
    const auto get = [axis](const Record& r) { return axis_or_empty(r, axis); };
    const std::set<std::string> left = distinct(a, get), right = distinct(b, get);
    std::vector<std::string> shared;
    std::set_intersection(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(shared));
    if (!shared.empty()) continue;  // unmatched cells are listed
    if (ignored.contains(axis)) {
      result.notes.push_back(difference(axis, left, right));
      continue;
    }
    check(axis, left, right);
    ignored.insert(axis);
  }
}

/// The share of the devices' peak at which the step would take 1 us; absent where it is not known.
std::optional<double> share_us_of(const Record& record) {
  const std::optional<double> rate = record.value("model_flop_rate"), step_us = record.value("step_time");
  const int64_t devices = axis<int64_t>(record, "devices", 0);
  const auto peak = peak_flops(first_devices(record.provenance, devices), devices, axis_or_empty(record, "math"));
  return rate && step_us && peak ? std::optional(*rate * 1e12 * *step_us / *peak) : std::nullopt;
}

Side collect(const std::vector<Record>& records, const CompareOptions& options, const AxisSet& ignored, bool of_a,
             std::string& unit) {
  const std::string& name = of_a ? options.name_a : options.name_b;
  Side side;
  std::map<std::pair<std::string, Axes>, Axes> full_axes;
  std::set<std::pair<std::string, Axes>> seen_runs;
  for (const Record& record : records) {
    if (record.kind == "study-run" && !is_foreign(record))
      cell_key_of(record);  // a damaged axis would create a separate cell
    const auto series = std::find_if(record.series.begin(), record.series.end(),
                                     [&](const Series& s) { return s.name == options.series; });
    if (record.status.kind != Status::Kind::ok || series == record.series.end()) {
      ++side.num_without_result;
      continue;
    }
    if (unit.empty()) unit = series->unit;
    if (unit != series->unit)
      throw damaged_record(record, fmt::format("gives '{}' in {} where others have {}", options.series,
                                               printable(series->unit, 40), printable(unit, 40)));
    for (const double sample : series->samples) require_speed(record, options.series, sample);
    // A run counted twice would make intervals too narrow.
    if (record.axes.contains("run") && !seen_runs.insert({record.kind, record.axes}).second)
      throw damaged_record(record, "is a run that is there already");
    Axes full = record.axes, matched = record.axes;
    for (const char* axis : {"run", kProcessAxis}) full.erase(axis), matched.erase(axis);
    for (const std::string& axis : ignored) matched.erase(axis);
    matched = paired_axes(std::move(matched), options.pairs, of_a);
    const std::pair key{record.kind, matched};
    const auto [seen, is_new] = full_axes.emplace(key, full);
    if (!is_new && seen->second != full)
      throw Error(Cause::usage,
                  fmt::format("{}: two cells become one without the axes {}: {} and {}", name, fmt::join(ignored, ", "),
                              axes_text(seen->second), axes_text(full)),
                  "one of the two cells by RUN@axis=value, or fewer axes that differ");
    CellSamples& cell = side.cells[key];
    std::vector<double>& samples = cell.processes[process_of(record)];
    samples.insert(samples.end(), series->samples.begin(), series->samples.end());
    cell.summarised = summary_in(record, options.series);
    cell.origin = std::max(cell.origin, record.origin);
    if (options.series == "step_time") cell.share_us = share_us_of(record);
  }
  return side;
}

/// Adds a note that names emulated devices.
void note_emulated(const std::vector<Record>& records, const std::string& name, RunComparison& result) {
  std::set<std::string> devices;
  for (const Record& record : records)
    if (record.origin == Origin::emulated) devices.insert(counted_devices(numbered_devices(record.provenance)));
  if (!devices.empty())
    result.notes.push_back(fmt::format("{} is emulated: it was measured on {}", name, fmt::join(devices, "; ")));
}

/// Notes which pairs would match more cells, and which were used.
void note_pairs(const Side& left, const Side& right, const CompareOptions& options, RunComparison& result) {
  std::vector<Axes> only_a, only_b;
  for (const auto& [key, cell] : left.cells)
    if (!right.cells.contains(key)) only_a.push_back(key.second);
  for (const auto& [key, cell] : right.cells)
    if (!left.cells.contains(key)) only_b.push_back(key.second);
  const PairProposal proposal = propose_pairs(only_a, only_b);
  result.proposed = proposal.pairs;
  if (!options.pairs.empty())
    result.notes.push_back("paired: " + pair_text(options.pairs, options.name_a, options.name_b));
  if (!proposal.pairs.empty()) result.notes.push_back(proposal_text(proposal, options.name_a, options.name_b));
}

/// Drift between two runs on the CPUs of a host, measured one after the other.
double drift_of(const CompareOptions& options, const std::string& device_kind) {
  return device_kind != "cuda" && !options.same_run ? kHostDrift : 0;
}

Moments moments(const SampleSummary& s, TestLevel level, double drift = 0) {
  if (level == TestLevel::runs) return {s.n, s.mean, s.sd};
  if (s.num_processes > 1) return with_drift({s.num_processes, s.process_median, s.process_sd}, drift);
  return {1, s.median, 0};
}

PairTest test_cell(const CellSamples& a, const CellSamples& b, const CellComparison& cell,
                   const CompareOptions& options, const std::string& device_kind, Direction direction) {
  const bool one_process = std::min(cell.a.num_processes, cell.b.num_processes) < 2;
  if (!a.summarised && !b.summarised) {
    if (options.same_run && one_process)
      return test_pair({a.processes.begin()->second, b.processes.begin()->second, direction});
    return test_processes({a.processes, b.processes, direction, options.same_run,
                           find_spread(options.spreads, cell.kind, device_kind, spread_cell(cell.axes)), cell.drift});
  }
  if (!one_process)
    return test_process_moments(moments(cell.a, TestLevel::processes, cell.drift),
                                moments(cell.b, TestLevel::processes, cell.drift), direction);
  PairTest test = test_summaries(cell.a, cell.b, direction);
  if (options.same_run) return test;
  test.level = TestLevel::none;  // a ratio without a test
  make_untested(test);
  return test;
}

void judge(const std::vector<CellComparison*>& cells) {
  std::vector<TestedPair> tests;
  for (CellComparison* cell : cells)
    tests.push_back({&cell->test, moments(cell->a, cell->test.level, cell->drift),
                     moments(cell->b, cell->test.level, cell->drift)});
  judge_together(tests);
}

void judge(std::vector<CellComparison>& cells) {
  std::vector<CellComparison*> pointers;
  for (CellComparison& cell : cells) pointers.push_back(&cell);
  judge(pointers);
}

}  // namespace

RunComparison compare_runs(const std::vector<Record>& a, const std::vector<Record>& b, const CompareOptions& options) {
  RunComparison result;
  result.name_a = options.name_a;
  result.name_b = options.name_b;
  result.series = options.series;
  require_paired_values(a, options.name_a, options.pairs, true);
  require_paired_values(b, options.name_b, options.pairs, false);
  AxisSet ignored(options.differing_axes.begin(), options.differing_axes.end());
  require_homogeneous(a, b, options, ignored, result);
  note_emulated(a, options.name_a, result);
  note_emulated(b, options.name_b, result);
  const Side left = collect(a, options, ignored, true, result.unit);
  const Side right = collect(b, options, ignored, false, result.unit);
  const Direction direction = result.unit == "us" ? Direction::smaller_is_faster : Direction::larger_is_faster;

  std::vector<std::pair<const CellSamples*, const CellSamples*>> grid;
  for (const auto& [key, cell] : left.cells) {
    const auto match = right.cells.find(key);
    if (match == right.cells.end()) {
      result.only_a.push_back(axes_text(key.second));
      continue;
    }
    result.cells.push_back({key.first, key.second, cell.summary(), match->second.summary(), {}, {}, {}});
    grid.emplace_back(&cell, &match->second);
  }
  for (const auto& [key, cell] : right.cells)
    if (!left.cells.contains(key)) result.only_b.push_back(axes_text(key.second));
  note_pairs(left, right, options, result);
  if (grid.empty() && !options.may_be_empty)
    throw Error(Cause::usage,
                fmt::format("{} and {} have no cell in common with a result in '{}'", options.name_a, options.name_b,
                            options.series),
                !result.proposed.empty()
                    ? format_pair(result.proposed)
                    : "runs of the same model, batches and devices, or name the axes that may differ");
  for (size_t i = 0; i < grid.size(); ++i) {
    const auto& [a_cell, b_cell] = grid[i];
    result.cells[i].drift = drift_of(options, result.device_kind);
    result.cells[i].test = test_cell(*a_cell, *b_cell, result.cells[i], options, result.device_kind, direction);
    result.cells[i].series = result.series;
    result.cells[i].unit = result.unit;
    result.cells[i].origin = std::max(a_cell->origin, b_cell->origin);
    const auto share = [](const CellSamples& cell, const SampleSummary& step_us) {
      return cell.share_us ? std::optional(*cell.share_us / step_us.estimate().value) : std::nullopt;
    };
    result.cells[i].model_flop_share_a = share(*a_cell, result.cells[i].a);
    result.cells[i].model_flop_share_b = share(*b_cell, result.cells[i].b);
  }
  judge(result.cells);
  for (const auto& [side, name] : {std::pair{&left, &options.name_a}, {&right, &options.name_b}})
    if (side->num_without_result > 0)
      result.notes.push_back(fmt::format("{}: {} record{} without a result in '{}'", *name, side->num_without_result,
                                         side->num_without_result == 1 ? "" : "s", options.series));
  return result;
}

void judge_together(RunsComparison& comparison) {
  std::vector<CellComparison*> cells;
  for (RunComparison& run : comparison.against)
    for (CellComparison& cell : run.cells) cells.push_back(&cell);
  judge(cells);
}

std::vector<const CellComparison*> regressions(const RunComparison& comparison, double percent) {
  std::vector<const CellComparison*> found;
  for (const CellComparison& cell : comparison.cells)
    if (cell.test.verdict == Verdict::faster && cell.test.ci && cell.test.ci->low > 1 + percent / 100)
      found.push_back(&cell);
  return found;
}

bool regression(const RunComparison& comparison, double percent) { return !regressions(comparison, percent).empty(); }

bool regression(const RunsComparison& comparison, double percent) {
  return std::any_of(comparison.against.begin(), comparison.against.end(),
                     [&](const RunComparison& run) { return regression(run, percent); });
}

}  // namespace amdahl
