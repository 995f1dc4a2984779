#include "report/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "report/common/words.h"
#include "report/compare/pairing.h"
#include "spec/measurements.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

using AxisSet = std::set<std::string>;

struct SeriesRow {
  std::string_view kind, series;
  // For amdahl's own records whose samples are independent measurements: all samples count, and all axes distinguish
  // cells.
  bool exact = false;
};

constexpr SeriesRow kSeries[] = {{"bench-run", "time", true},
                                 {"collective", "time"},
                                 {"link", "bandwidth"},
                                 {"link", "latency"},
                                 {"onesided", "latency", true},
                                 {"onesided-gemm", "time", true},
                                 {"onesided-norm", "time", true},
                                 {"onesided-locality", "time", true},
                                 {"onesided-pattern", "time", true},
                                 {"sensor", "time", true},
                                 {"study-run", "throughput"}};

constexpr const char* kSeen = "nccl_chose";  // an observation, not a setting: does not distinguish cells

/// Records of one kind that have the series, reduced to its median unless the row is exact.
std::vector<Record> with_series(const std::vector<Record>& records, const SeriesRow& row) {
  std::vector<Record> kept;
  for (const Record& record : records) {
    if (record.kind != row.kind || record.status.kind != Status::Kind::ok) continue;
    for (const Series& series : record.series) {
      if (series.name != row.series || series.samples.empty()) continue;
      kept.push_back(record);
      kept.back().axes.erase(kSeen);
      // placement of a task by measured costs, not a setting
      if (row.kind == "sensor") kept.back().axes.erase("device");
      kept.back().series = {series};
      if (!row.exact) kept.back().series.front().samples = {percentile(series.samples, 50)};
    }
  }
  return kept;
}

AxisSet axes_of(const std::vector<Record>& records) {
  AxisSet names;
  for (const Record& record : records)
    for (const auto& [name, value] : record.axes) names.insert(name);
  names.erase(kProcessAxis);  // counts repetitions, does not describe the measurement
  return names;
}

AxisSet minus(const AxisSet& a, const AxisSet& b) {
  AxisSet rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::inserter(rest, rest.end()));
  return rest;
}

void add_note(RunComparison& result, const std::string& note) {
  if (std::find(result.notes.begin(), result.notes.end(), note) == result.notes.end()) result.notes.push_back(note);
}

void join(RunComparison& result, const RunComparison& part) {
  if (result.series.empty()) result.series = part.series, result.unit = part.unit;
  result.device_kind = part.device_kind;
  result.cells.insert(result.cells.end(), part.cells.begin(), part.cells.end());
  result.only_a.insert(result.only_a.end(), part.only_a.begin(), part.only_a.end());
  result.only_b.insert(result.only_b.end(), part.only_b.begin(), part.only_b.end());
  for (const std::string& note : part.notes) add_note(result, note);
  if (result.proposed.empty()) result.proposed = part.proposed;
}

/// Ignores axes that only one side has: they cannot distinguish its cells from the other side's.
CompareOptions shared_axes_only(CompareOptions options, const std::vector<Record>& a, const std::vector<Record>& b,
                                const SeriesRow& row, RunComparison& result) {
  const AxisSet left = axes_of(a), right = axes_of(b);
  options.series = row.series;
  options.may_be_empty = true;
  if (row.exact) return options;
  for (const auto& [extra, name] :
       {std::pair{minus(left, right), &options.name_a}, {minus(right, left), &options.name_b}}) {
    if (extra.empty()) continue;
    options.differing_axes.insert(options.differing_axes.end(), extra.begin(), extra.end());
    add_note(result, fmt::format("only {} knows {}: not compared", *name, fmt::join(extra, ", ")));
  }
  return options;
}

struct Sides {
  std::vector<Record> a, b;
};

/// Another tool's records have different axes per operation, so each operation is compared separately; otherwise all
/// together.
std::map<std::string, Sides> by_operation(const std::vector<Record>& a, const std::vector<Record>& b, bool foreign) {
  std::map<std::string, Sides> parts;
  const auto operation = [&](const Record& record) {
    const auto found = record.axes.find("op");
    return foreign && record.kind == "sensor" && found != record.axes.end() ? axis_text(found->second) : std::string();
  };
  for (const Record& record : a) parts[operation(record)].a.push_back(record);
  for (const Record& record : b) parts[operation(record)].b.push_back(record);
  return parts;
}

void note_without_result(const std::vector<Record>& records, const std::string& name, size_t used,
                         RunComparison& result) {
  if (const size_t rest = records.size() - std::min(used, records.size()); rest > 0)
    add_note(result,
             fmt::format("{}: {} record{} without a result that is compared", name, rest, rest == 1 ? "" : "s"));
}

}  // namespace

RunComparison compare_fabric(const std::vector<Record>& a, const std::vector<Record>& b,
                             const CompareOptions& options) {
  RunComparison result;
  result.name_a = options.name_a;
  result.name_b = options.name_b;
  size_t used_a = 0, used_b = 0;
  const bool foreign = std::any_of(a.begin(), a.end(), is_foreign) || std::any_of(b.begin(), b.end(), is_foreign);
  for (SeriesRow row : kSeries) {
    row.exact = row.exact && !foreign;
    const std::vector<Record> left = with_series(a, row), right = with_series(b, row);
    used_a += left.size(), used_b += right.size();
    for (const auto& [operation, sides] : by_operation(left, right, foreign)) {
      if (sides.a.empty() || sides.b.empty()) {
        const std::string what = operation.empty() ? std::string(row.kind) : operation;
        for (const auto& [records, name] : {std::pair{&sides.a, &options.name_a}, {&sides.b, &options.name_b}})
          if (!records->empty()) add_note(result, fmt::format("only {} has {} of a {}", *name, row.series, what));
        continue;
      }
      join(result, compare_runs(sides.a, sides.b, shared_axes_only(options, sides.a, sides.b, row, result)));
    }
  }
  if (result.cells.empty())
    throw Error(Cause::usage,
                fmt::format("{} and {} have no cell with a result in common", options.name_a, options.name_b),
                !result.proposed.empty()
                    ? format_pair(result.proposed)
                    : "runs of the same collectives, tests or workloads, sizes, types and numbers of devices");
  note_without_result(a, options.name_a, used_a, result);
  note_without_result(b, options.name_b, used_b, result);
  return result;
}

}  // namespace amdahl
