#include "report/sensor_modes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "amdahl/units.h"
#include "report/record_axes.h"
#include "report/text.h"
#include "report/words.h"
#include "stats/bootstrap.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

using Row = std::vector<std::string>;

std::string word(const Record& record, const char* name) { return axis<std::string>(record, name, ""); }

std::vector<double> samples(const Record& record, const char* name) {
  for (const Series& series : record.series)
    if (series.name == name) return series.samples;
  return {};
}

std::string median_text(const Record& record, const char* name) {
  const std::vector<double> values = samples(record, name);
  return values.empty() ? "-" : format_number(median_of(values));
}

/// "70 / 30": one number a device.
std::string device_texts(const Record& record, const char* name) {
  std::vector<std::string> texts;
  for (const double value : samples(record, name))
    texts.push_back(value == std::floor(value) ? with_thousands(static_cast<int64_t>(value)) : format_number(value));
  return texts.empty() ? "-" : fmt::format("{}", fmt::join(texts, " / "));
}

/// A task among others, not all of them.
bool is_one_task(const Record& record) { return record.axes.contains("device"); }

bool is_base(const Record& record) {
  if (word(record, "mode") == "hetero") return word(record, "policy") == "one-device";
  if (word(record, "mode") == "pipeline") return word(record, "schedule") == "sequential";
  return axis<int64_t>(record, "devices", 0) == 1;
}

/// The same work by one device, or in sequence; null without such a record.
const Record* base_of(const std::vector<Record>& records, const Record& record) {
  for (const Record& base : records) {
    if (base.kind != "sensor" || !is_base(base) || is_one_task(base) || samples(base, "time").empty()) continue;
    bool same = true;
    for (const char* name : {"mode", "op", "workload", "voxel_mode", "dtype", "path", "model"})
      same &= word(base, name) == word(record, name);
    if (same && axis<bool>(base, "deterministic", false) == axis<bool>(record, "deterministic", false)) return &base;
  }
  return nullptr;
}

std::string speedup_text(const std::vector<Record>& records, const Record& record) {
  const Record* base = base_of(records, record);
  const std::vector<double> own = samples(record, "time");
  if (!base || own.empty()) return "n/a";
  if (base == &record) return "1";
  const std::vector<double> one = samples(*base, "time");
  return format_speedup(mean_of(one) / mean_of(own), bootstrap_ratio_of_means({one, own}));
}

/// Mean and half of its 95 % interval.
std::string mean_text(const Record& record, const char* name) {
  const std::vector<double> values = samples(record, name);
  return values.empty() ? "-" : format_plus_minus(mean_of(values), t_interval(values), Charset::ascii);
}

/// Time over the least that is possible.
std::string bound_text(const Record& record) {
  const std::vector<double> time = samples(record, "time"), bound = samples(record, "makespan_bound");
  if (time.empty() || bound.empty() || !(bound.front() > 0)) return "n/a";
  return fmt::format("{:.2f}", mean_of(time) / bound.front());
}

std::string count_text(const Record& record) { return fmt::to_string(samples(record, "time").size()); }

std::string voxel_text(const Record& record) {
  std::string text = word(record, "voxel_mode");
  if (axis<bool>(record, "deterministic", false)) text += " deterministic";
  return text;
}

std::string heading(const Record& record) {
  std::string text =
      fmt::format("{}, mode {}", is_one_task(record) ? "tasks" : word(record, "op"), word(record, "mode"));
  if (word(record, "mode") == "hetero") text += fmt::format(", {} devices", axis<int64_t>(record, "devices", 0));
  if (!is_one_task(record)) text += fmt::format(", {}", word(record, "dtype"));
  if (!word(record, "launch").empty()) text += fmt::format(", {}", word(record, "launch"));
  if (word(record, "merge") == "host") text += ", results gathered in host memory";
  if (!word(record, "model").empty())
    text += fmt::format(", model {} ({} parameters)", word(record, "model"),
                        with_thousands(axis<int64_t>(record, "parameters", 0)));
  if (record.origin == Origin::emulated) text += ", EMULATED";
  if (!is_one_task(record)) text += fmt::format("\n{}", word(record, "workload"));
  return voxel_text(record).empty() || is_one_task(record) ? text : text + ' ' + voxel_text(record);
}

/// How the row differs from the others of its table.
std::string way_of(const Record& record) {
  const std::string named = word(record, "policy") + word(record, "schedule");
  return named.empty() ? fmt::format("on {}", axis<int64_t>(record, "devices", 0)) : named;
}

// ---- rows ----

Row task_row(const Record& record) {
  return {fmt::format("{} {} {}", word(record, "op"), voxel_text(record), word(record, "workload")),
          way_of(record),
          fmt::to_string(axis<int64_t>(record, "device", 0)),
          mean_text(record, "time"),
          median_text(record, "alone_time"),
          count_text(record)};
}

Row divided_row(const std::vector<Record>& records, const Record& record) {
  return {way_of(record),
          mean_text(record, "time"),
          speedup_text(records, record),
          median_text(record, "makespan_bound"),
          bound_text(record),
          device_texts(record, "device_items"),
          device_texts(record, "utilisation"),
          median_text(record, "merge_time"),
          count_text(record)};
}

Row pipeline_row(const std::vector<Record>& records, const Record& record) {
  return {way_of(record),
          fmt::to_string(axis<int64_t>(record, "devices", 0)),
          mean_text(record, "time"),
          speedup_text(records, record),
          median_text(record, "preprocess_time"),
          median_text(record, "train_time"),
          mean_text(record, "time_hidden"),
          mean_text(record, "hidden_share"),
          count_text(record)};
}

Row titles_of(const Record& record) {
  if (is_one_task(record)) return {"task", "way", "device", "time us", "alone us", "n"};
  if (word(record, "mode") == "pipeline")
    return {"schedule",  "devices",   "time us", "speedup [95 % CI]", "fuse us", "train us",
            "hidden us", "% of fuse", "n"};
  return {"way", "time us", "speedup [95 % CI]", "bound us", "time/bound", "each does", "each busy %", "merge us", "n"};
}

Row row_of(const std::vector<Record>& records, const Record& record) {
  if (is_one_task(record)) return task_row(record);
  return word(record, "mode") == "pipeline" ? pipeline_row(records, record) : divided_row(records, record);
}

/// What the columns of the modes mean, those that there are.
std::string legend(const std::vector<Record>& records) {
  std::string text;
  const auto add = [&](const char* mode, const char* words) {
    if (std::any_of(records.begin(), records.end(),
                    [&](const Record& record) { return is_divided_work(record) && word(record, "mode") == mode; }))
      text += fmt::format("{}: {}\n", mode, words);
  };
  add("task", "time of a round of all tasks; bound: the longest task, or all of them spread with no gap");
  add("hetero",
      "bound: all devices at their speeds alone, with no gap and nothing to merge; speedup over the fastest device "
      "alone");
  add("pipeline", "time a batch by the host's clock; hidden: less than in sequence");
  return text.empty() ? text : '\n' + text;
}

}  // namespace

bool is_divided_work(const Record& record) {
  const std::string mode = word(record, "mode");
  return record.kind == "sensor" && (mode == "task" || mode == "pipeline" || mode == "hetero");
}

std::string divided_work_text(const std::vector<Record>& records) {
  std::vector<std::pair<std::string, std::vector<Row>>> tables;
  for (const Record& record : records) {
    if (!is_divided_work(record)) continue;
    const std::string title = heading(record);
    auto found = std::find_if(tables.begin(), tables.end(), [&](const auto& table) { return table.first == title; });
    if (found == tables.end()) found = tables.insert(tables.end(), {title, {titles_of(record)}});
    found->second.push_back(row_of(records, record));
  }
  std::string text;
  for (auto& [title, rows] : tables) {
    for (Row& row : rows)
      for (std::string& cell : row) cell = printable(cell);
    const size_t line = title.find('\n');
    text += fmt::format("\n{}\n", printable(title.substr(0, line)));
    if (line != std::string::npos) text += fmt::format("{}\n", printable(title.substr(line + 1)));
    text += aligned_table(rows);
  }
  return text + legend(records);
}

}  // namespace amdahl
