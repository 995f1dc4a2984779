#include "report/fabric/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "amdahl/error.h"
#include "base/record_values.h"
#include "chart/bar_chart.h"
#include "report/common/words.h"
#include "report/fabric/link_figures.h"
#include "report/page/page_parts.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

using Severity = Finding::Severity;

int64_t count_of(const DoctorOutcome& outcome, Severity severity) {
  return std::count_if(outcome.findings.begin(), outcome.findings.end(),
                       [severity](const Finding& finding) { return finding.severity == severity; });
}

std::string plural(int64_t count, const char* word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string verdict_of(const DoctorOutcome& outcome, bool judged) {
  if (!judged) return "Measurements only: the findings were not stored with this run.";
  const int64_t faults = count_of(outcome, Severity::fault), warnings = count_of(outcome, Severity::warning);
  if (faults > 0)
    return fmt::format("{} must be fixed before this machine is used or measured{}.", plural(faults, "fault"),
                       warnings > 0 ? fmt::format("; {} may slow it down", plural(warnings, "warning")) : "");
  if (warnings > 0)
    return fmt::format("The machine works, but {} name what can make it slower than expected.",
                       plural(warnings, "warning"));
  return fmt::format("No faults and no warnings in {}.", plural(static_cast<int64_t>(outcome.checked.size()), "check"));
}

/// Rates of the slowest device.
std::string speed_fact(const std::vector<Record>& records) {
  const Record* slowest = nullptr;
  for (const Record& record : records) {
    const std::vector<double>& rates = samples_of(record, "matrix_rate");
    if (record.kind != "device-speed" || rates.empty()) continue;
    if (!slowest || median_of(rates) < median_of(samples_of(*slowest, "matrix_rate"))) slowest = &record;
  }
  if (!slowest) return {};
  const Figure figure = median_figure(samples_of(*slowest, "matrix_rate"), "TFLOP/s");
  return fmt::format("{}: matrix products of the slowest device, {} ({})", figure.number,
                     axis<int64_t>(*slowest, "device", 0), figure.basis);
}

std::string pair_fact(const std::vector<Record>& records, const MachineSpec& machine) {
  const LinkSpec* slowest = nullptr;
  for (const LinkSpec& link : machine.links)
    if (link.measured_gbps > 0 && (!slowest || link.measured_gbps < slowest->measured_gbps)) slowest = &link;
  const Record* record = slowest ? copy_engine_record(records, *slowest, machine) : nullptr;
  if (!record) return {};
  const Figure figure = median_figure(samples_of(*record, "bandwidth"), "GB/s");
  return fmt::format("{}: one direction of {} → {}, the slowest path between devices ({})", figure.number,
                     link_end(machine, slowest->source), link_end(machine, slowest->destination), figure.basis);
}

std::vector<std::string> facts_of(const DoctorOutcome& outcome, bool judged) {
  std::vector<std::string> facts;
  if (judged)
    facts.push_back(fmt::format("{}: {}, {} (n = {} checks)", plural(count_of(outcome, Severity::fault), "fault"),
                                plural(count_of(outcome, Severity::warning), "warning"),
                                plural(count_of(outcome, Severity::notice), "notice"), outcome.checked.size()));
  for (const std::string& fact : {speed_fact(outcome.records), pair_fact(outcome.records, outcome.machine)})
    if (!fact.empty()) facts.push_back(fact);
  return facts;
}

const char* severity_text(Severity severity) {
  switch (severity) {
    case Severity::fault:
      return "fault: must be fixed";
    case Severity::warning:
      return "warning: can slow work down";
    case Severity::notice:
      break;
  }
  return "notice: for information";
}

PageSection findings_section(const DoctorOutcome& outcome) {
  PageSection section{"findings", "Findings", {}, {}, {}};
  PageTable table;
  table.caption = "Findings, most severe first";
  table.table.columns = {{"severity", "Severity"}, {"finding", "Finding"},   {"where", "Where"},
                         {"measured", "Measured"}, {"expected", "Expected"}, {"why", "Why it matters"},
                         {"remedy", "Fix"}};
  for (const Finding& finding : outcome.findings)
    table.table.rows.push_back({std::string(severity_text(finding.severity)), finding.name, finding.where,
                                finding.measured, finding.expected, finding.why, finding.remedy});
  for (const Finding& finding : outcome.findings) {
    std::string severity(to_string(finding.severity));
    for (char& c : severity) c = static_cast<char>(std::toupper(c));
    section.short_form.push_back(fmt::format("{} {}, {}: measured {}; expected {}; {}; fix: {}", severity, finding.name,
                                             finding.where, finding.measured, finding.expected, finding.why,
                                             finding.remedy));
  }
  std::set<std::string> named;
  for (const Finding& finding : outcome.findings) named.insert(finding.name);
  std::vector<std::string> fine;
  for (const std::string& name : outcome.checked)
    if (!named.contains(name)) fine.push_back(name);
  if (!table.table.rows.empty()) section.tables.push_back(std::move(table));
  if (!fine.empty()) section.paragraphs.push_back(fmt::format("passed: {}", fmt::join(fine, ", ")));
  return section;
}

std::optional<Chart> speed_chart(const std::vector<Record>& records, const char* series, const char* what,
                                 const TableColumn& column) {
  BarPlot plot;
  plot.id = slug(series);
  plot.title = what;
  plot.name = {"device", "Device"};
  plot.value = column;
  plot.interval_title = "95 % CI";
  for (const Record& record : records) {
    const std::vector<double>& rates = samples_of(record, series);
    if (record.kind != "device-speed" || record.status.kind != Status::Kind::ok || rates.empty()) continue;
    const SampleSummary summary = summarise(rates);
    Bar bar;
    bar.name = fmt::format("device {}", axis<int64_t>(record, "device", 0));
    bar.value = summary.median, bar.interval = summary.median_ci, bar.samples = summary.n, bar.origin = record.origin;
    plot.summary += fmt::format("{}{}: {}", plot.summary.empty() ? "" : "; ", bar.name, format_number(bar.value));
    plot.bars.push_back(std::move(bar));
  }
  plot.summary += ".";
  return bar_chart(plot);
}

/// Host, devices and versions in one line.
std::string machine_line(const MachineSpec& machine) {
  std::map<std::string, int> names;
  for (const DeviceSpec& device : machine.devices) ++names[device.kind == "cuda" ? device.name : "CPU virtual device"];
  std::string text = machine.host;
  for (const auto& [name, count] : names) text += fmt::format(", {} x {}", count, name);
  for (const char* version : {"driver", "cuda_runtime", "nccl"})
    if (const auto found = machine.versions.find(version); found != machine.versions.end())
      text += fmt::format(", {} {}", version, found->second);
  return text;
}

/// Matrix products and copies of each device, which the charts draw.
PageTable speed_table(const std::vector<Record>& records) {
  PageTable table{
      "", {{{"device", "Device"}, {"matrix_tflops", "Matrix products (TFLOP/s)"}, {"copy_gbps", "Copies (GB/s)"}}, {}}};
  table.in_pages = false;
  for (const Record& record : records) {
    const std::vector<double>&matrix = samples_of(record, "matrix_rate"), &copies = samples_of(record, "copy_rate");
    if (record.kind == "device-speed" && !matrix.empty() && !copies.empty())
      table.table.rows.push_back({axis<int64_t>(record, "device", 0), median_of(matrix), median_of(copies)});
  }
  return table;
}

/// The range of the pairs' bandwidths and latencies.
std::string pairs_line(const MachineSpec& machine) {
  double least = 0, most = 0, latency = 0;
  for (const LinkSpec& link : machine.links) {
    if (link.measured_gbps <= 0) continue;
    least = least > 0 ? std::min(least, link.measured_gbps) : link.measured_gbps;
    most = std::max(most, link.measured_gbps), latency = std::max(latency, link.latency_us);
  }
  return fmt::format("pairs: {} to {} GB/s{}", format_number(least), format_number(most),
                     latency > 0 ? fmt::format(", loads take up to {:.3f} us", latency) : "");
}

std::string evidence_text(const Record& record) {
  if (record.kind == "collective") return collective_record_text(record);
  if (record.kind == "device-speed") return fmt::format("speed of device {}", axis<int64_t>(record, "device", 0));
  return fmt::format("{} {}, {} → {}", record.kind, axis<std::string>(record, "test", ""),
                     axis<std::string>(record, "source", ""), axis<std::string>(record, "destination", ""));
}

}  // namespace

Page doctor_page(const DoctorOutcome& outcome, bool judged) {
  Page page;
  page.subject = {"health check", "health checks", "", page_devices(outcome.records)};
  page.title = fmt::format("Health of {}", outcome.machine.host);
  page.qualifier = page_qualifier(outcome.records);
  page.verdict = verdict_of(outcome, judged);
  page.facts = facts_of(outcome, judged);
  PageSection findings = findings_section(outcome);
  findings.paragraphs.insert(findings.paragraphs.begin(), machine_line(outcome.machine));
  add_section(page, std::move(findings));
  PageSection speed{"speed", "Devices under load, all at once", {}, {}, {}};
  add_chart(speed, speed_chart(outcome.records, "matrix_rate", "Matrix products (TFLOP/s)",
                               {"matrix_tflops", "Matrix products (TFLOP/s)"}));
  add_chart(speed, speed_chart(outcome.records, "copy_rate", "Copies in a device's own memory (GB/s)",
                               {"copy_gbps", "Copies (GB/s)"}));
  if (PageTable table = speed_table(outcome.records); !table.table.rows.empty())
    speed.tables.push_back(std::move(table));
  add_section(page, std::move(speed));
  PageSection pairs = pairs_section(outcome.records, outcome.machine, 0);
  if (!pairs.charts.empty()) pairs.short_form = {pairs_line(outcome.machine)};
  add_section(page, std::move(pairs));
  PageSection exchange{"collectives", "All-reduce", {}, {}, {}};
  add_chart(exchange, collective_chart(outcome.records, CollectiveQuantity::bus_bandwidth));
  for (const Record& record : outcome.records)
    if (record.kind == "collective" && record.value("busbw") && !axis<bool>(record, "in_place", false))
      exchange.short_form.push_back(fmt::format("all-reduce of {} bytes: {} us, {} GB/s bus bandwidth",
                                                axis<int64_t>(record, "bytes", 0), record.value("time").value_or(0),
                                                *record.value("busbw")));
  add_section(page, std::move(exchange));
  add_section(page, machine_section(outcome.machine));
  page.provenance = page_provenance(outcome.records);
  for (const std::string& line : outcome.unseen) page.notes.push_back("skipped: " + printable(line));
  add_status_notes(page, outcome.records, evidence_text);
  return page;
}

}  // namespace amdahl
