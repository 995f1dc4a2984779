#include "report/fabric/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "amdahl/error.h"
#include "base/record_values.h"
#include "report/common/words.h"

namespace amdahl {
namespace {

std::string word_or_none(const Record& record, const char* name) { return axis<std::string>(record, name, "none"); }

std::string nccl_type(const std::string& dtype) {
  static const std::map<std::string, std::string> kNames{{"f32", "float"},     {"f64", "double"}, {"f16", "half"},
                                                         {"bf16", "bfloat16"}, {"i32", "int32"},  {"i64", "int64"},
                                                         {"u8", "uint8"}};
  const auto found = kNames.find(dtype);
  return found == kNames.end() ? dtype : found->second;
}

/// Time, algbw, busbw and #wrong of one placement, in nccl-tests' widths.
std::string nccl_columns(const Record* record) {
  const std::optional<double> time = record ? record->value("time") : std::nullopt;
  if (!time) return fmt::format("  {:>8}  {:>6}  {:>6}  {:>5}", "N/A", "N/A", "N/A", "N/A");
  const std::optional<double> wrong = record->value("wrong");
  const std::string shown = *time >= 10000 ? fmt::format("{:.0f}", *time)
                            : *time >= 100 ? fmt::format("{:.1f}", *time)
                                           : fmt::format("{:.2f}", *time);
  return fmt::format("  {:>8}  {:>6.2f}  {:>6.2f}  {:>5}", shown, record->value("algbw").value_or(0),
                     record->value("busbw").value_or(0), wrong ? fmt::format("{:.0f}", *wrong) : "N/A");
}

constexpr const char* kNcclHeader =
    "#\n"
    "#                                                              out-of-place                       in-place        "
    "  \n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)   "
    "      \n";

}  // namespace

std::string sweep_text(const Record& record) {
  const int64_t devices = axis<int64_t>(record, "devices", 0);
  std::string text = fmt::format("{}, {}", word_or_none(record, "collective"), word_or_none(record, "dtype"));
  if (record.axes.contains("op")) text += ", " + word_or_none(record, "op");
  if (record.axes.contains("root")) text += fmt::format(", root {}", axis<int64_t>(record, "root", 0));
  const DeviceWords words = device_text(record.provenance.device_kind);
  return text + fmt::format(" over {} {}", devices, devices == 1 ? words.one : words.many);
}

std::vector<std::pair<std::string, std::vector<const Record*>>> collective_tables(const std::vector<Record>& records) {
  std::vector<std::pair<std::string, std::vector<const Record*>>> tables;
  for (const Record& record : records) {
    if (record.kind != "collective") continue;
    const std::string title = fmt::format("{}, {}, {}", sweep_text(record), word_or_none(record, "transport"),
                                          word_or_none(record, "launch"));
    auto found = std::find_if(tables.begin(), tables.end(), [&](const auto& table) { return table.first == title; });
    if (found == tables.end()) found = tables.insert(tables.end(), {title, {}});
    found->second.push_back(&record);
  }
  return tables;
}

std::string collectives_nccl_tests(const std::vector<Record>& records) {
  std::string text;
  for (const auto& [title, rows] : collective_tables(records)) {
    text += fmt::format("# amdahl collectives: {}\n{}", title, kNcclHeader);
    std::map<int64_t, std::pair<const Record*, const Record*>> sizes;
    for (const Record* record : rows) {
      auto& [out, in] = sizes[axis<int64_t>(*record, "bytes", 0)];
      (axis<bool>(*record, "in_place", false) ? in : out) = record;
    }
    double sum = 0, wrong = 0;
    int count = 0;
    for (const auto& [bytes, pair] : sizes) {
      const Record& any = pair.first ? *pair.first : *pair.second;
      text +=
          fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}", bytes, axis<int64_t>(any, "count", 0),
                      nccl_type(word_or_none(any, "dtype")), any.axes.contains("op") ? word_or_none(any, "op") : "none",
                      any.axes.contains("root") ? axis<int64_t>(any, "root", 0) : -1);
      text += nccl_columns(pair.first) + nccl_columns(pair.second) + '\n';
      for (const Record* record : {pair.first, pair.second}) {
        if (!record || !record->value("busbw")) continue;
        sum += *record->value("busbw"), ++count;
        wrong += record->value("wrong").value_or(0);
      }
    }
    text += fmt::format("# Out of bounds values : {:.0f} {}\n# Avg bus bandwidth    : {:g} \n#\n\n", wrong,
                        wrong == 0 ? "OK" : "FAILED", count ? sum / count : 0);
  }
  return text;
}

}  // namespace amdahl
