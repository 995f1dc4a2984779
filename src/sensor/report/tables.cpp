#include "sensor/report/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "base/record_values.h"
#include "chart/document.h"
#include "report/page/page_parts.h"
#include "sensor/report/charts.h"
#include "sensor/report/gain.h"
#include "stats/estimate.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

using Row = std::vector<TableValue>;

/// Fields shared by all rows of a table.
std::string heading(const Record& record) {
  std::string text = fmt::format("{}, mode {}", text_axis(record, "op"), text_axis(record, "mode"));
  if (!text_axis(record, "scaling").empty()) text += fmt::format(", {} scaling", text_axis(record, "scaling"));
  text += fmt::format(", {}", text_axis(record, "dtype"));
  for (const char* name : {"cache", "launch"})
    if (!text_axis(record, name).empty()) text += fmt::format(", {}", text_axis(record, name));
  if (text_axis(record, "path") == "host") text += ", devices through host memory";
  if (!text_axis(record, "policy").empty()) text += fmt::format(", policy {}", text_axis(record, "policy"));
  return text;
}

/// The median of a series and the ends of its 95 % interval.
void add_estimate(Row& row, const Record& record, const char* name) {
  const std::vector<double>& values = samples_of(record, name);
  const Estimate estimate = estimate_of(values);
  row.push_back(values.empty() ? TableValue() : TableValue(estimate.value));
  row.insert(row.end(), {end_of(estimate.ci, true), end_of(estimate.ci, false)});
}

TableValue median_value(const Record& record, const char* name) {
  const std::vector<double>& values = samples_of(record, name);
  return values.empty() ? TableValue() : TableValue(median_of(values));
}

/// The speedup by throughput, which under strong scaling is the ratio of times, with the ends of its interval.
void add_gain(Row& row, const std::optional<SensorGain>& gain) {
  const std::optional<Interval> ci = gain ? gain->ci : std::nullopt;
  row.push_back(gain ? TableValue(gain->speedup) : TableValue());
  row.insert(row.end(), {end_of(ci, true), end_of(ci, false)});
}

TableValue known_text(const std::string& text) { return text.empty() ? TableValue() : TableValue(text); }
TableValue count_of(const Record& record) { return static_cast<int64_t>(samples_of(record, "time").size()); }

/// "70 / 30": one number per device.
TableValue of_each_device(const Record& record, const char* name) {
  std::vector<std::string> texts;
  for (const double value : samples_of(record, name))
    texts.push_back(value == std::floor(value) ? with_thousands(static_cast<int64_t>(value)) : format_number(value));
  return known_text(fmt::format("{}", fmt::join(texts, " / ")));
}

Row same_work_row(const std::vector<Record>& records, const Record& record) {
  const bool alone = text_axis(record, "mode") == "single";
  const std::optional<SensorGain> gain = alone ? std::nullopt : sensor_gain(records, record);
  Row row{text_axis(record, "workload"), known_text(voxel_option(record)), axis<int64_t>(record, "devices", 0)};
  add_estimate(row, record, "time");
  row.push_back(median_value(record, "call_time"));
  const Estimate rate = sensor_rate(record);
  row.push_back(rate.value > 0 ? TableValue(rate.value / rate_unit(record).divisor) : TableValue());
  const double bandwidth = sensor_rate(record, "bandwidth").value;
  row.push_back(bandwidth > 0 ? TableValue(bandwidth) : TableValue());
  add_gain(row, gain);
  row.push_back(gain ? TableValue(100 * gain->efficiency) : TableValue());
  row.push_back(alone ? TableValue() : known_text(text_axis(record, "merge")));
  // Single calls have stamps between a device's part and the merge: the share that the merge has of them, and as much
  // of the time.
  const std::vector<double>& shares = samples_of(record, "communication_share");
  const std::optional<double> share = shares.empty() ? std::nullopt : std::optional(median_of(shares));
  row.insert(row.end(), {optional_value(share, sensor_time(record).value / 100), optional_value(share),
                         count_of(record), std::string(origin_text(record.origin))});
  return row;
}

Row divided_work_row(const std::vector<Record>& records, const Record& record) {
  const bool task = is_one_task(record), pipeline = text_axis(record, "mode") == "pipeline";
  const std::vector<double>&time = samples_of(record, "time"), &bound = samples_of(record, "makespan_bound");
  const bool bounded = !task && !pipeline && !time.empty() && !bound.empty() && bound.front() > 0;
  Row row{task ? TableValue(fmt::format("{} {} {}", text_axis(record, "op"), voxel_option(record),
                                        text_axis(record, "workload")))
               : TableValue(),
          sensor_method(record),
          task       ? TableValue(axis<int64_t>(record, "device", 0))
          : pipeline ? TableValue(axis<int64_t>(record, "devices", 0))
                     : TableValue()};
  add_estimate(row, record, "time");
  row.push_back(median_value(record, "alone_time"));
  add_gain(row, task ? std::nullopt : sensor_gain(records, record));
  row.push_back(bounded ? TableValue(bound.front()) : TableValue());
  row.push_back(bounded ? TableValue(sensor_time(record).value / bound.front()) : TableValue());
  row.push_back(task ? TableValue() : of_each_device(record, "device_items"));
  row.push_back(task ? TableValue() : of_each_device(record, "utilisation"));
  row.insert(row.end(), {median_value(record, "preprocess_time"), median_value(record, "train_time")});
  add_estimate(row, record, "time_hidden");
  add_estimate(row, record, "hidden_share");
  row.insert(row.end(), {median_value(record, "merge_time"), count_of(record)});
  return row;
}

/// The table of that caption, made with these columns if it is new.
PageTable& table_of(std::vector<PageTable>& tables, const std::string& caption,
                    const std::vector<TableColumn>& columns) {
  for (PageTable& table : tables)
    if (table.caption == caption) return table;
  tables.push_back({caption, {columns, {}}});
  return tables.back();
}

}  // namespace

std::vector<PageTable> sensor_tables(const std::vector<Record>& records) {
  std::vector<PageTable> tables;
  for (const Record& record : records) {
    if (record.kind != "sensor" || is_divided_work(record)) continue;
    table_of(tables, heading(record),
             {{"workload", "Workload"},
              {"voxels", "Voxels"},
              {"devices", "Devices"},
              {"time_us", "Time (us)"},
              {"time_low", "from"},
              {"time_high", "to"},
              {"call_us", "Call (us)"},
              {"rate", fmt::format("Throughput ({})", rate_unit(record).unit)},
              {"bandwidth_gbps", "Memory (GB/s)"},
              {"speedup", "Speedup"},
              {"speedup_low", "from"},
              {"speedup_high", "to"},
              {"efficiency", "Efficiency (%)"},
              {"merge", "Merge"},
              {"merge_us", "Merge (us)"},
              {"share", "Merge (% of time)"},
              {"samples", "n"},
              {"origin", "Origin"}})
        .table.rows.push_back(same_work_row(records, record));
  }
  return tables;
}

PageSection divided_work_section(const std::vector<Record>& records) {
  PageSection section{"divided", "Work divided between heterogeneous devices or steps", {}, {}, {}};
  section.charts = divided_work_charts(records);
  for (const Record& record : records) {
    if (!is_divided_work(record)) continue;
    std::string caption = format_divided_work(record);
    if (const size_t line = caption.find('\n'); line != std::string::npos) caption.replace(line, 1, ": ");
    table_of(section.tables, caption,
             {{"task", "Task"},
              {"method", text_axis(record, "mode") == "pipeline" ? "Schedule" : "Method"},
              {"devices", is_one_task(record) ? "Device" : "Devices"},
              {"time_us", "Time (us)"},
              {"time_low", "from"},
              {"time_high", "to"},
              {"alone_us", "Alone (us)"},
              {"speedup", "Speedup"},
              {"speedup_low", "from"},
              {"speedup_high", "to"},
              {"bound_us", "Bound (us)"},
              {"of_bound", "Time / bound"},
              {"items", "Each does"},
              {"busy", "Each busy (%)"},
              {"preprocess_us", "Fuse (us)"},
              {"train_us", "Train (us)"},
              {"hidden_us", "Hidden (us)"},
              {"hidden_low", "from"},
              {"hidden_high", "to"},
              {"hidden_share", "Hidden (% of fuse)"},
              {"share_low", "from"},
              {"share_high", "to"},
              {"merge_us", "Merge (us)"},
              {"samples", "n"}})
        .table.rows.push_back(divided_work_row(records, record));
  }
  const auto explain = [&](const char* mode, const char* words) {
    if (std::any_of(records.begin(), records.end(),
                    [&](const Record& record) { return is_divided_work(record) && text_axis(record, "mode") == mode; }))
      section.paragraphs.push_back(fmt::format("{}: {}", mode, words));
  };
  explain("task", "time of a round of all tasks; bound: the longest task, or all of them spread with no gap");
  explain("hetero",
          "bound: all devices at the highest speed of each here, with no gap and nothing to merge; speedup over the "
          "fastest device alone");
  explain("pipeline", "time a batch by the host's clock; hidden: less than in sequence");
  return section;
}

}  // namespace amdahl
