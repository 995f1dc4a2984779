#include "report/sensor/modes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "amdahl/units.h"
#include "base/record_values.h"
#include "report/common/aligned_table.h"
#include "report/common/words.h"
#include "report/page/page_parts.h"
#include "report/sensor/gain.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

using Row = std::vector<std::string>;

std::string median_text(const Record& record, const char* name) {
  const std::vector<double> values = samples_of(record, name);
  return values.empty() ? "-" : format_number(median_of(values));
}

/// "70 / 30": one number per device.
std::string device_texts(const Record& record, const char* name) {
  std::vector<std::string> texts;
  for (const double value : samples_of(record, name))
    texts.push_back(value == std::floor(value) ? with_thousands(static_cast<int64_t>(value)) : format_number(value));
  return texts.empty() ? "-" : fmt::format("{}", fmt::join(texts, " / "));
}

std::string speedup_text(const std::vector<Record>& records, const Record& record) {
  const std::optional<SensorGain> gain = sensor_gain(records, record);
  if (!gain) return "n/a";
  return gain->base == &record ? "1" : format_speedup(gain->speedup, gain->ci);
}

/// Mean and half-width of its 95 % interval.
std::string mean_text(const Record& record, const char* name) {
  const std::vector<double> values = samples_of(record, name);
  return values.empty() ? "-" : format_plus_minus(mean_of(values), t_interval(values), Charset::ascii);
}

/// Time / lower bound.
std::string bound_text(const Record& record) {
  const std::vector<double> time = samples_of(record, "time"), bound = samples_of(record, "makespan_bound");
  if (time.empty() || bound.empty() || !(bound.front() > 0)) return "n/a";
  return fmt::format("{:.2f}", mean_of(time) / bound.front());
}

std::string count_text(const Record& record) { return fmt::to_string(samples_of(record, "time").size()); }

// ---- rows ----

Row task_row(const Record& record) {
  return {fmt::format("{} {} {}", text_axis(record, "op"), voxel_option(record), text_axis(record, "workload")),
          sensor_method(record),
          fmt::to_string(axis<int64_t>(record, "device", 0)),
          mean_text(record, "time"),
          median_text(record, "alone_time"),
          count_text(record)};
}

Row divided_row(const std::vector<Record>& records, const Record& record) {
  return {sensor_method(record),
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
  return {sensor_method(record),
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
  if (is_one_task(record)) return {"task", "method", "device", "time us", "alone us", "n"};
  if (text_axis(record, "mode") == "pipeline")
    return {"schedule",  "devices",   "time us", "speedup [95 % CI]", "fuse us", "train us",
            "hidden us", "% of fuse", "n"};
  return {"method",    "time us",     "speedup [95 % CI]", "bound us", "time/bound",
          "each does", "each busy %", "merge us",          "n"};
}

Row row_of(const std::vector<Record>& records, const Record& record) {
  if (is_one_task(record)) return task_row(record);
  return text_axis(record, "mode") == "pipeline" ? pipeline_row(records, record) : divided_row(records, record);
}

/// Explains the columns of the modes that are present.
std::string legend(const std::vector<Record>& records) {
  std::string text;
  const auto add = [&](const char* mode, const char* words) {
    if (std::any_of(records.begin(), records.end(),
                    [&](const Record& record) { return is_divided_work(record) && text_axis(record, "mode") == mode; }))
      text += fmt::format("{}: {}\n", mode, words);
  };
  add("task", "time of a round of all tasks; bound: the longest task, or all of them spread with no gap");
  add("hetero",
      "bound: all devices at the highest speed of each here, with no gap and nothing to merge; speedup over the "
      "fastest device alone");
  add("pipeline", "time a batch by the host's clock; hidden: less than in sequence");
  return text.empty() ? text : '\n' + text;
}

}  // namespace

std::string divided_work_text(const std::vector<Record>& records) {
  std::vector<std::pair<std::string, std::vector<Row>>> tables;
  for (const Record& record : records) {
    if (!is_divided_work(record)) continue;
    const std::string title = format_divided_work(record);
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
