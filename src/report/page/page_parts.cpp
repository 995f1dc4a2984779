#include "report/page/page_parts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>

#include "amdahl/error.h"
#include "base/limited_devices.h"
#include "report/common/words.h"
#include "report/page/table_text.h"
#include "stats/estimate.h"

namespace amdahl {
namespace {

std::string fact(const Provenance& provenance, const char* name) {
  const auto found = provenance.facts.find(name);
  return found == provenance.facts.end() ? std::string() : found->second;
}

std::string joined(const std::vector<std::string>& parts, const char* between) {
  std::string text;
  for (const std::string& part : parts)
    if (!part.empty()) text += (text.empty() ? "" : between) + part;
  return text;
}

std::string machine_text(const Provenance& provenance) {
  const std::string cores = fact(provenance, "cores");
  return joined(
      {provenance.host, fact(provenance, "cpu"), cores.empty() ? "" : cores + " cores", fact(provenance, "os"),
       fact(provenance, "kernel").empty() ? "" : "Linux " + fact(provenance, "kernel")},
      ", ");
}

/// "CUDA 13.0, NCCL 2.28.9": the facts of these names that the run has, each after its word.
std::string facts_text(const Provenance& provenance,
                       std::initializer_list<std::pair<const char*, const char*>> names_and_words) {
  std::vector<std::string> parts;
  for (const auto& [name, word] : names_and_words)
    if (const std::string value = fact(provenance, name); !value.empty())
      parts.push_back(fmt::format("{} {}", word, value));
  return joined(parts, ", ");
}

std::string versions_text(const Provenance& provenance) {
  return facts_text(provenance, {{"cuda", "CUDA"},
                                 {"cuda_driver", "driver API"},
                                 {"nccl", "NCCL"},
                                 {"cublas", "cuBLAS"},
                                 {"onednn", "oneDNN"},
                                 {"gloo", "Gloo"}});
}

std::string settings_text(const Provenance& provenance) {
  return facts_text(provenance, {{"launch", "launch"},
                                 {"math", "math"},
                                 {"cache", "caches"},
                                 {"deterministic", "deterministic"},
                                 {"processes", "processes:"}});
}

/// "device 0: compute capability 9.0, 132 SMs, GPU-6ad6...".
std::string device_details(const Provenance& provenance) {
  std::vector<std::string> devices;
  for (size_t i = 0; i < numbered_devices(provenance).size(); ++i) {
    const auto detail = [&](const char* name) {
      return fact(provenance, fmt::format("device.{}.{}", i, name).c_str());
    };
    const std::string capability = detail("compute_capability"), sms = detail("sm_count");
    const std::string text = joined(
        {capability.empty() ? "" : "compute capability " + capability, sms.empty() ? "" : sms + " SMs", detail("uuid")},
        ", ");
    if (!text.empty()) devices.push_back(fmt::format("device {}: {}", i, text));
  }
  return joined(devices, "; ");
}

/// NCCL's and CUDA's environment variables of the run.
std::string environment_text(const Provenance& provenance) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : provenance.facts)
    if (name.starts_with("env.")) parts.push_back(fmt::format("{}={}", name.substr(4), value));
  return joined(parts, " ");
}

/// The digits that the interval makes certain, and one more; at least three significant digits.
std::string as_exact_as(double value, const std::optional<Interval>& interval) {
  const double half = interval ? interval->half_width() : 0;
  std::string short_form = format_number(value);
  if (!(half > 0) || std::abs(value) >= 1e6) return short_form;
  const int decimals = std::clamp(1 - static_cast<int>(std::floor(std::log10(half))), 0, 4);
  const size_t point = short_form.find('.');
  const int shown = point == std::string::npos ? 0 : static_cast<int>(short_form.size() - point - 1);
  return decimals <= shown ? short_form : fmt::format("{:.{}f}", value, decimals);
}

}  // namespace

std::string page_qualifier(const std::vector<Record>& records) {
  bool is_virtual = false, emulated = false;
  for (const Record& record : records) {
    is_virtual = is_virtual || record.provenance.device_kind == "cpu-virtual";
    emulated = emulated || record.origin == Origin::emulated;
  }
  std::string text = is_virtual ? "measured on CPU virtual devices, not GPUs" : "";
  if (emulated) text += text.empty() ? "some numbers are emulated" : "; some numbers are emulated";
  return text;
}

std::string devices_text(const Provenance& provenance) {
  const std::vector<std::string> names = numbered_devices(provenance);
  if (provenance.device_kind == "host") return {};  // whole commands
  const DeviceWords words = device_text(provenance.device_kind);
  if (names.empty()) return std::string(words.many);
  if (provenance.device_kind == "cuda" || origin_of_devices(provenance) != Origin::measured)
    return counted_devices(names, " x ");
  return fmt::format("{} {}", names.size(), names.size() == 1 ? words.one : words.many);
}

std::string page_devices(const std::vector<Record>& records) {
  const Provenance* largest = nullptr;
  const auto count = [](const Provenance& provenance) { return numbered_devices(provenance).size(); };
  const Provenance* last = nullptr;  // records follow each other by the thousand with the same one
  for (const Record& record : records) {
    if (last && *last == record.provenance) continue;
    last = &record.provenance;
    if (!largest || count(*last) > count(*largest)) largest = last;
  }
  return largest ? devices_text(*largest) : std::string();
}

std::string page_host(const std::vector<Record>& records) {
  for (const Record& record : records)
    if (!record.provenance.host.empty()) return record.provenance.host;
  return "an unknown host";
}

std::vector<std::pair<std::string, std::string>> page_provenance(const std::vector<Record>& records) {
  std::vector<Provenance> distinct;
  for (const Record& record : records)  // records follow each other by the thousand with the same one
    if (distinct.empty() || distinct.back() != record.provenance) distinct.push_back(record.provenance);
  return page_provenance(distinct);
}

std::vector<std::pair<std::string, std::string>> page_provenance(const std::vector<Provenance>& all) {
  const std::pair<const char*, std::string (*)(const Provenance&)> kRows[] = {
      {"Machine", machine_text},
      {"Devices", [](const Provenance& p) { return devices_text(p); }},
      {"Device details", device_details},
      {"Versions", versions_text},
      {"Settings", settings_text},
      {"Variables", environment_text},
      {"Tool", [](const Provenance& p) { return fmt::format("amdahl {} ({})", p.tool_version, p.commit); }},
      {"Command", [](const Provenance& p) { return p.command_line; }},
      {"Seed", [](const Provenance& p) { return fmt::to_string(p.seed); }},
      {"Started", [](const Provenance& p) { return p.start_time; }}};
  std::vector<std::pair<std::string, std::string>> rows;
  for (const auto& [title, words] : kRows) {
    std::set<std::string> seen;
    std::vector<std::string> values;
    for (const Provenance& provenance : all)
      if (const std::string value = words(provenance); seen.insert(value).second) values.push_back(value);
    constexpr size_t kMost = 3;  // an arena has one command line per transport
    const size_t more = values.size() > kMost ? values.size() - kMost : 0;
    values.resize(values.size() - more);
    if (more > 0) values.push_back(fmt::format("and {} more, in the records", more));
    if (const std::string text = joined(values, "; "); !text.empty()) rows.emplace_back(title, printable(text));
  }
  return rows;
}

TableValue end_of(const std::optional<Interval>& ci, bool low) {
  return ci ? TableValue(low ? ci->low : ci->high) : TableValue();
}

TableValue optional_value(const std::optional<double>& value, double factor) {
  return value ? TableValue(*value * factor) : TableValue();
}

Figure figure_of(const Estimate& median, std::string_view unit, size_t count) {
  const auto& [value, ci] = median;
  if (!ci) return {fmt::format("{} {}", format_number(value), unit), fmt::format("n = {}", count)};
  return {fmt::format("{} {}", as_exact_as(value, ci), unit),
          fmt::format("median, 95 % CI {} to {}, n = {}", as_exact_as(ci->low, ci), as_exact_as(ci->high, ci), count)};
}

Figure median_figure(const std::vector<double>& samples, std::string_view unit) {
  return figure_of(estimate_of(samples), unit, samples.size());
}

void add_chart(PageSection& section, std::optional<Chart> chart) {
  if (chart) section.charts.push_back(std::move(*chart));
}

void add_section(Page& page, PageSection section) {
  if (section.paragraphs.empty() && section.pictures.empty() && section.charts.empty() && section.tables.empty() &&
      section.short_form.empty())
    return;
  page.sections.push_back(std::move(section));
}

PageTable table_of_texts(std::string caption, const std::vector<std::string>& head,
                         const std::vector<std::vector<std::string>>& rows) {
  PageTable table{std::move(caption), {}};
  for (const std::string& title : head) table.table.columns.push_back({title, title});
  for (const auto& row : rows) table.table.rows.emplace_back(row.begin(), row.end());
  return table;
}

void remove_columns(PageTable& table, const std::vector<std::string>& columns) {
  DataTable& data = table.table;
  for (size_t i = data.columns.size(); i-- > 0;) {
    if (std::find(columns.begin(), columns.end(), data.columns[i].name) == columns.end()) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    data.columns.erase(data.columns.begin() + at);
    for (std::vector<TableValue>& row : data.rows) row.erase(row.begin() + at);
  }
}

void add_status_notes(Page& page, const std::vector<Record>& records, std::string (*name)(const Record&)) {
  struct Reason {
    bool failed;
    std::string text;
    std::vector<std::string> names;
  };
  std::vector<Reason> reasons;
  for (const Record& record : records) {
    if (record.status.kind == Status::Kind::ok) continue;
    const bool failed = record.status.kind == Status::Kind::failed;
    auto found = std::find_if(reasons.begin(), reasons.end(), [&](const Reason& reason) {
      return reason.failed == failed && reason.text == record.status.reason;
    });
    if (found == reasons.end()) found = reasons.insert(reasons.end(), {failed, record.status.reason, {}});
    if (std::string words = name(record);
        std::find(found->names.begin(), found->names.end(), words) == found->names.end())
      found->names.push_back(std::move(words));
  }
  for (const Reason& reason : reasons)
    page.notes.push_back(printable(
        fmt::format("{} {}: {}", reason.failed ? "FAILED" : "waived", fmt::join(reason.names, "; "), reason.text)));
}

std::string slug(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool upper = c >= 'A' && c <= 'Z', letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (upper || letter)
      result += upper ? static_cast<char>(c - 'A' + 'a') : c;
    else if (!result.empty() && result.back() != '-')
      result += '-';
  }
  while (!result.empty() && result.back() == '-') result.pop_back();
  return result;
}

}  // namespace amdahl
