#include "report/common/process_spread.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/common/record_checks.h"
#include "report/common/words.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

struct SeriesRow {
  std::string_view kind, series;
};
constexpr SeriesRow kSeries[] = {{"study-run", "step_time"}, {"collective", "time"}, {"sensor", "time"},
                                 {"bench-run", "time"},      {"link", "bandwidth"},  {"link", "latency"},
                                 {"onesided", "latency"}};

const Series* compared_series(const Record& record) {
  for (const SeriesRow& row : kSeries)
    for (const Series& series : record.series)
      if (record.kind == row.kind && series.name == row.series && !series.samples.empty()) return &series;
  return nullptr;
}

bool same_cell(const ProcessSpread& a, const ProcessSpread& b) {
  return a.kind == b.kind && a.device_kind == b.device_kind && a.cell == b.cell;
}

}  // namespace

int64_t process_of(const Record& record) {
  const auto found = record.axes.find(kProcessAxis);
  if (found == record.axes.end()) return 0;
  if (const int64_t* process = std::get_if<int64_t>(&found->second)) return *process;
  throw damaged_record(record, fmt::format("has a value of another type in axis '{}'", kProcessAxis));
}

std::string spread_cell(const std::map<std::string, AxisValue>& axes) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : axes)
    if (name != "run" && name != kProcessAxis) parts.push_back(fmt::format("{}={}", name, axis_text(value)));
  return fmt::format("{}", fmt::join(parts, " "));
}

std::vector<ProcessSpread> spreads_in(const std::vector<Record>& records) {
  std::map<std::tuple<std::string, std::string, std::string>, ProcessSamples> cells;
  for (const Record& record : records) {
    const Series* series = record.status.kind == Status::Kind::ok ? compared_series(record) : nullptr;
    if (!series) continue;
    std::vector<double>& samples =
        cells[{record.kind, record.provenance.device_kind, spread_cell(record.axes)}][process_of(record)];
    for (const double sample : series->samples) {
      require_speed(record, series->name, sample);
      samples.push_back(sample);
    }
  }
  std::vector<ProcessSpread> spreads;
  for (const auto& [key, samples] : cells) {
    const std::optional<CalibratedSpread> spread = spread_of(samples);
    if (!spread || spread->processes < kFewestCalibrationProcesses) continue;
    const auto& [kind, device_kind, cell] = key;
    spreads.push_back({kind, device_kind, cell, spread->relative_sd, spread->processes, spread->runs});
  }
  return spreads;
}

namespace {

/// Whether all of them have one time, to which their rates belong.
bool has_one_time(const Record& record) {
  return std::any_of(record.series.begin(), record.series.end(),
                     [](const Series& s) { return s.name == "time" && s.samples.size() == 1; });
}

Record pooled(const std::vector<const Record*>& members) {
  Record record = *members.front();
  record.axes.erase(kProcessAxis);
  for (const Record* member : members) {
    if (member->status.kind != Status::Kind::failed || record.status.kind == Status::Kind::failed) continue;
    record.status = member->status;
    record.status.reason = fmt::format("process {}: {}", process_of(*member), member->status.reason);
  }
  for (Series& series : record.series) {
    std::vector<double> all;
    bool single = true;
    for (const Record* member : members)
      for (const Series& other : member->series) {
        if (other.name != series.name) continue;
        single = single && other.samples.size() == 1;
        all.insert(all.end(), other.samples.begin(), other.samples.end());
      }
    series.samples = single ? std::vector<double>{median_of(all)} : all;
  }
  // A rate is work / time: that of the pooled time.
  const auto time = record.value("time");
  if (!time || !has_one_time(record)) return record;
  const Record& first = *members.front();
  for (Series& series : record.series)
    if (series.unit.ends_with("/s") && series.samples.size() == 1 && first.value(series.name) && first.value("time"))
      series.samples = {*first.value(series.name) * *first.value("time") / *time};
  return record;
}

}  // namespace

std::vector<Record> pooled_processes(const std::vector<Record>& records) {
  std::map<std::pair<std::string, std::map<std::string, AxisValue>>, size_t> places;
  std::vector<std::vector<const Record*>> groups;
  for (const Record& record : records) {
    std::map<std::string, AxisValue> axes = record.axes;
    const bool spread = axes.erase(kProcessAxis) > 0;
    const auto [place, is_new] = places.emplace(std::pair{record.kind, axes}, groups.size());
    if (is_new || !spread) place->second = groups.size(), groups.emplace_back();
    groups[place->second].push_back(&record);
  }
  std::vector<Record> result;
  for (const auto& group : groups)
    result.push_back(group.front()->axes.contains(kProcessAxis) ? pooled(group) : *group.front());
  return result;
}

std::vector<ProcessSpread> merge_spreads(std::vector<ProcessSpread> known, const std::vector<ProcessSpread>& fresh) {
  std::erase_if(known, [&](const ProcessSpread& old) {
    return std::any_of(fresh.begin(), fresh.end(), [&](const ProcessSpread& s) { return same_cell(old, s); });
  });
  known.insert(known.end(), fresh.begin(), fresh.end());
  return known;
}

std::optional<CalibratedSpread> find_spread(const std::vector<ProcessSpread>& spreads, const std::string& kind,
                                            const std::string& device_kind, const std::string& cell) {
  const ProcessSpread* found = nullptr;
  for (const ProcessSpread& spread : spreads) {
    if (spread.kind != kind || spread.device_kind != device_kind) continue;
    if (spread.cell == cell) {
      found = &spread;
      break;
    }
    if (!found || spread.relative_sd > found->relative_sd) found = &spread;
  }
  if (!found) return std::nullopt;
  return CalibratedSpread{found->relative_sd, found->processes, found->runs};
}

}  // namespace amdahl
