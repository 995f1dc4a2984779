#include "report/export/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <ctime>
#include <map>

#include "plan/cell_axes.h"
#include "report/common/account_text.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

using Labels = std::map<std::string, std::string>;

struct BaseUnit {
  const char* unit;    // of a series
  const char* suffix;  // of the metric; empty: a number without unit
  double factor;
};

constexpr BaseUnit kUnits[] = {{"us", "seconds", 1e-6},    {"s", "seconds", 1},
                               {"bytes", "bytes", 1},      {"GB/s", "bytes_per_second", 1e9},
                               {"percent", "ratio", 1e-2}, {"1", "", 1},
                               {"MHz", "hertz", 1e6},      {"C", "celsius", 1},
                               {"W", "watts", 1},          {"TFLOP/s", "flops", 1e12}};

// Letters, digits and underscores: the characters allowed in names of metrics and labels.
std::string name_of(std::string_view text) {
  std::string name;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (c == '/')
      name += "_per_";
    else
      name += '_';
  }
  return name;
}

// "samples/s" to "samples_per_second".
std::string unit_name(std::string_view unit) {
  if (unit.ends_with("/s")) return name_of(unit.substr(0, unit.size() - 2)) + "_per_second";
  return name_of(unit);
}

std::string escaped(std::string_view text, bool quotes) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\\\";
    else if (c == '\n')
      result += "\\n";
    else if (c == '"' && quotes)
      result += "\\\"";
    else
      result += c;
  }
  return result;
}

std::string label_text(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels)
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, escaped(value, true));
  return "{" + text + "}";
}

std::string value_text(const AxisValue& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

// The lines of a metric must be contiguous after its header; a map keeps them together.
class Metrics {
 public:
  void add(const std::string& name, const std::string& help, const Labels& labels, double value) {
    Family& family = families_[name];
    if (family.help.empty()) family.help = help;
    family.values[label_text(labels)] = value;
  }

  std::string text() const {
    std::string text;
    for (const auto& [name, family] : families_) {
      text += fmt::format("# HELP {} {}\n# TYPE {} gauge\n", name, escaped(family.help, false), name);
      for (const auto& [labels, value] : family.values) text += fmt::format("{}{} {}\n", name, labels, value);
    }
    return text;
  }

 private:
  struct Family {
    std::string help;
    std::map<std::string, double> values;  // by labels
  };
  std::map<std::string, Family> families_;
};

bool counts_runs(const std::string& axis) { return axis == "run" || axis == "epoch"; }

Labels source_labels(const Provenance& provenance) {
  return {{"host", provenance.host}, {"device_kind", provenance.device_kind}};
}

Labels labels_of(const Record& record) {
  constexpr std::string_view kOrigins[] = {"measured", "emulated", "modelled"};
  Labels labels = source_labels(record.provenance);
  labels["kind"] = record.kind;
  labels["origin"] = kOrigins[static_cast<size_t>(record.origin)];
  for (const auto& [axis, value] : record.axes) {
    if (counts_runs(axis)) continue;
    const std::string name = name_of(axis);
    const bool taken = labels.contains(name) || name == "statistic" || name.empty() ||
                       std::isdigit(name.front()) != 0 || name.front() == '_';
    labels[taken ? "axis_" + name : name] = value_text(value);
  }
  return labels;
}

// Samples of one quantity at one point of the axes.
struct Pool {
  std::string name, help;
  Labels labels;
  double factor = 1;
  std::vector<double> samples;
};

class Pools {
 public:
  void add(const Record& record, const Series& series) {
    const BaseUnit* const known = std::find_if(std::begin(kUnits), std::end(kUnits),
                                               [&](const BaseUnit& unit) { return series.unit == unit.unit; });
    const bool found = known != std::end(kUnits);
    const std::string suffix = found ? known->suffix : unit_name(series.unit);
    const Labels labels = labels_of(record);
    Pool& pool = pools_[fmt::format("{} {} {}", series.name, series.unit, label_text(labels))];
    pool.name = "amdahl_" + name_of(series.name);
    if (!suffix.empty()) pool.name += "_" + suffix;
    pool.help = fmt::format("{} of an amdahl run, {}", series.name, suffix.empty() ? "a number without unit" : suffix);
    pool.labels = labels;
    pool.factor = found ? known->factor : 1;
    // epochs are not samples of one quantity: only the last counts
    if (record.axes.contains("epoch")) pool.samples.clear();
    pool.samples.insert(pool.samples.end(), series.samples.begin(), series.samples.end());
  }

  void write(Metrics& metrics) const {
    for (const auto& [key, pool] : pools_) {
      if (pool.samples.empty()) continue;
      Labels labels = pool.labels;
      metrics.add(pool.name + "_samples", "samples behind " + pool.name, labels,
                  static_cast<double>(pool.samples.size()));
      labels["statistic"] = "median";
      metrics.add(pool.name, pool.help, labels, median_of(pool.samples) * pool.factor);
      labels["statistic"] = "mean";
      metrics.add(pool.name, pool.help, labels, mean_of(pool.samples) * pool.factor);
    }
  }

 private:
  std::map<std::string, Pool> pools_;
};

// Converts "2026-01-31T12:00:00Z" to seconds since 1970; nullopt for other texts.
std::optional<double> seconds_of(const std::string& utc) {
  std::tm time{};
  if (std::sscanf(utc.c_str(), "%d-%d-%dT%d:%d:%dZ", &time.tm_year, &time.tm_mon, &time.tm_mday, &time.tm_hour,
                  &time.tm_min, &time.tm_sec) != 6)
    return std::nullopt;
  time.tm_year -= 1900;
  time.tm_mon -= 1;
  return static_cast<double>(timegm(&time));
}

void add_states(Metrics& metrics, const std::vector<Record>& records) {
  constexpr std::string_view kStates[] = {"ok", "waived", "failed"};
  std::map<std::string, std::pair<Labels, double>> counts;
  for (const Record& record : records) {
    Labels labels = source_labels(record.provenance);
    labels["kind"] = record.kind;
    if (const std::optional<double> start = seconds_of(record.provenance.start_time))
      metrics.add("amdahl_start_time_seconds", "when the run began, in seconds since 1970", labels, *start);
    for (const std::string_view state : kStates) {
      labels["status"] = state;
      auto& [kept, count] = counts[label_text(labels)];
      kept = labels;
      if (kStates[static_cast<size_t>(record.status.kind)] == state) count += 1;
    }
  }
  for (const auto& [key, entry] : counts)
    metrics.add("amdahl_records", "records of an amdahl run by how they ended", entry.first, entry.second);
}

Labels comparison_labels(const StudyComparison& comparison, const Labels& source) {
  std::map<std::string, AxisValue> axes = axes_of(comparison.multi);
  axes.erase("num_parameters");
  Labels labels = source;
  for (const auto& [axis, value] : axes) labels[axis] = value_text(value);
  return labels;
}

void add_verdicts(Metrics& metrics, const StudySummary& study, const Labels& source) {
  for (const StudyComparison& comparison : study.comparisons) {
    Labels labels = comparison_labels(comparison, source);
    metrics.add("amdahl_speedup_ratio", "step time of the best single device over that of several", labels,
                comparison.test.ratio);
    for (const Verdict verdict : {Verdict::faster, Verdict::slower, Verdict::same, Verdict::unclear}) {
      labels["verdict"] = to_string(verdict);
      metrics.add("amdahl_verdict", "1 for what several devices are against the best single one, 0 for the others",
                  labels, comparison.test.verdict == verdict ? 1 : 0);
    }
  }
}

}  // namespace

std::string prometheus_text(const std::vector<Record>& records, const StudySummary* study) {
  Metrics metrics;
  Pools pools;
  for (const Record& record : records) {
    for (const Series& series : record.series) pools.add(record, series);
    if (const auto ratio = account_ratio_series(record)) pools.add(record, *ratio);
  }
  pools.write(metrics);
  add_states(metrics, records);
  if (study && !records.empty()) add_verdicts(metrics, *study, source_labels(records.back().provenance));
  return metrics.text();
}

}  // namespace amdahl
