#include "report/fabric/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "amdahl/error.h"
#include "base/record_values.h"
#include "report/common/words.h"
#include "report/fabric/link_charts.h"
#include "report/fabric/link_figures.h"
#include "report/fabric/topology.h"
#include "report/page/page_parts.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

std::string path_text(const Record& record) {
  const std::string what =
      record.kind == "integrity" ? "integrity by " + text_axis(record, "way") : text_axis(record, "test");
  return fmt::format("{}, {} → {}", what, text_axis(record, "source"), text_axis(record, "destination"));
}

struct PairExtremes {
  const LinkSpec *slowest = nullptr, *fastest = nullptr;
  int measured = 0, quarantined = 0;
};

PairExtremes extremes_of(const MachineSpec& machine) {
  PairExtremes pairs;
  for (const LinkSpec& link : machine.links) {
    pairs.quarantined += !link.quarantine.empty();
    if (link.measured_gbps <= 0) continue;
    ++pairs.measured;
    if (!pairs.slowest || link.measured_gbps < pairs.slowest->measured_gbps) pairs.slowest = &link;
    if (!pairs.fastest || link.measured_gbps > pairs.fastest->measured_gbps) pairs.fastest = &link;
  }
  return pairs;
}

std::string path_text(const MachineSpec& machine, const LinkSpec& link) {
  return fmt::format("{} → {}", link_end(machine, link.source), link_end(machine, link.destination));
}

std::string verdict_of(const std::vector<Record>& records, const MachineSpec& machine, size_t slow) {
  const PairExtremes pairs = extremes_of(machine);
  const IntegrityTotals integrity = integrity_totals(records);
  const std::string devices = records.empty() ? "the devices" : devices_text(records.front().provenance);
  if (pairs.quarantined > 0 || integrity.corrupt > 0)
    return fmt::format("Data arrived wrong on {} of the paths between {}: they must not be used until that is fixed.",
                       std::max<size_t>(integrity.corrupt, static_cast<size_t>(pairs.quarantined)), devices);
  if (pairs.measured == 0) return fmt::format("The paths between {} were measured only in part.", devices);
  if (slow > 0)
    return fmt::format("{} of {} pairs of {} {} the expected bandwidth; the slowest, {}, reaches {} GB/s{}.", slow,
                       pairs.measured, devices, slow == 1 ? "does not reach" : "do not reach",
                       path_text(machine, *pairs.slowest), format_number(pairs.slowest->measured_gbps),
                       pairs.slowest->expected_gbps > 0
                           ? fmt::format(" of {} expected", format_number(pairs.slowest->expected_gbps))
                           : "");
  const ExpectedParts parts = expected_parts(machine);
  if (parts.pairs < pairs.measured)
    return fmt::format("Between {}, data moves at {} to {} GB/s; the expected bandwidth is not known.", devices,
                       format_number(pairs.slowest->measured_gbps), format_number(pairs.fastest->measured_gbps));
  return fmt::format("All {} pairs of {} reach the expected bandwidth, {} GB/s or more each.", pairs.measured, devices,
                     format_number(pairs.slowest->measured_gbps));
}

std::string pairs_fact(const std::vector<Record>& records, const MachineSpec& machine) {
  const PairExtremes pairs = extremes_of(machine);
  const Record* record = pairs.slowest ? copy_engine_record(records, *pairs.slowest, machine) : nullptr;
  if (!record) return {};
  const Figure figure = median_figure(samples_of(*record, "bandwidth"), "GB/s");
  const double expected = pairs.slowest->expected_gbps;
  return fmt::format(
      "{}: one direction of {}, the slowest of {} pairs of devices{} ({})", figure.number,
      path_text(machine, *pairs.slowest), pairs.measured,
      expected > 0 ? fmt::format(", {:.0f} % of what is expected", 100 * pairs.slowest->measured_gbps / expected) : "",
      figure.basis);
}

/// The record of a test with the minimum or maximum of a series.
const Record* extreme_record(const std::vector<Record>& records, const char* test, const char* series, bool most) {
  const Record* found = nullptr;
  double best = 0;
  for (const Record& record : records) {
    if (record.kind != "link" || text_axis(record, "test") != test || record.status.kind != Status::Kind::ok) continue;
    const std::vector<double>& samples = samples_of(record, series);
    if (samples.empty()) continue;
    const double value = percentile(samples, 50);
    if (!found || (most ? value > best : value < best)) found = &record, best = value;
  }
  return found;
}

std::string latency_fact(const std::vector<Record>& records) {
  const Record* record = extreme_record(records, "device_to_device_latency_sm", "latency", true);
  if (!record) return {};
  const Figure figure = median_figure(samples_of(*record, "latency"), "us");
  return fmt::format("{}: a load from another device's memory on the slowest path, {} → {} ({})", figure.number,
                     text_axis(*record, "source"), text_axis(*record, "destination"), figure.basis);
}

std::string host_fact(const std::vector<Record>& records) {
  const Record* record = extreme_record(records, "host_to_device_memcpy_ce", "bandwidth", false);
  if (!record) return {};
  const Figure figure = median_figure(samples_of(*record, "bandwidth"), "GB/s");
  return fmt::format("{}: from host memory on the slowest path, {} → {} ({})", figure.number,
                     text_axis(*record, "source"), text_axis(*record, "destination"), figure.basis);
}

std::string integrity_fact(const std::vector<Record>& records) {
  const IntegrityTotals totals = integrity_totals(records);
  if (totals.paths == totals.waived) return {};
  std::string text = fmt::format("{} bytes wrong: of {} moved between memories (n = {} transfers over {} paths",
                                 with_thousands(static_cast<int64_t>(totals.bad_bytes)),
                                 with_thousands(static_cast<int64_t>(totals.bytes)),
                                 with_thousands(static_cast<int64_t>(totals.transfers)), totals.paths - totals.waived);
  if (totals.injected > 0)
    text += fmt::format("; {:.0f} of {:.0f} corruptions made on purpose were found", totals.found, totals.injected);
  return text + ")";
}

/// One row per test: minimum and maximum over its links.
PageTable tests_table(const std::vector<Record>& records) {
  PageTable table;
  table.caption = "All tests: medians of their paths";
  table.table.columns = {{"test", "Test"},
                         {"quantity", "Quantity"},
                         {"unit", "Unit"},
                         {"least", "Least"},
                         {"most", "Most"},
                         {"ways", "Paths"},
                         {"samples", "Samples per path"},
                         {"not_ok", "Failed or waived"}};
  for (const auto& [name, group] : link_test_groups(records)) {
    const bool latency = std::any_of(group.begin(), group.end(),
                                     [](const Record* record) { return record->value("latency").has_value(); });
    const bool fitted = group.front()->value("beta").has_value();
    const char* series = latency ? "latency" : fitted ? "beta" : "bandwidth";
    double least = 0, most = 0;
    int64_t paths = 0, samples = 0, not_ok = 0;
    for (const Record* record : group) {
      not_ok += record->status.kind != Status::Kind::ok;
      const std::vector<double>& values = samples_of(*record, series);
      if (record->status.kind != Status::Kind::ok || values.empty()) continue;
      const double median = percentile(values, 50);
      least = paths > 0 ? std::min(least, median) : median, most = paths > 0 ? std::max(most, median) : median;
      ++paths, samples = static_cast<int64_t>(fitted ? samples_of(*record, "time").size() : values.size());
    }
    const bool any = paths > 0;
    table.table.rows.push_back({name,
                                std::string(latency  ? "latency of a load"
                                            : fitted ? "fitted bandwidth"
                                                     : "bandwidth"),
                                std::string(latency ? "us" : "GB/s"), any ? TableValue{least} : TableValue{},
                                any ? TableValue{most} : TableValue{}, paths, samples, not_ok});
  }
  return table;
}

PageSection tests_section(const std::vector<Record>& records) {
  PageSection section{"tests", "All tests", {}, {}, {}};
  PageTable table = tests_table(records);
  if (!table.table.rows.empty()) section.tables.push_back(std::move(table));
  return section;
}

const Series* find_series(const Record& record, const char* name) {
  for (const Series& series : record.series)
    if (series.name == name && !series.samples.empty()) return &series;
  return nullptr;
}

/// The value of a cell: bandwidth, latency, or a fitted line.
std::string cell_text(const Record& record) {
  if (record.status.kind == Status::Kind::waived) return "waived";
  const Series *gbps = find_series(record, "bandwidth"), *latency = find_series(record, "latency");
  std::string text = "n/a";
  if (gbps) text = fmt::format("{:.2f}", percentile(gbps->samples, 50));
  if (latency) text = fmt::format("{:.3f}", percentile(latency->samples, 50));
  const std::optional<double> alpha = record.value("alpha"), beta = record.value("beta");
  if (alpha && beta) text = fmt::format("{}+{}", format_number(*alpha), format_number(*beta));
  return record.status.kind == Status::Kind::failed ? text + " FAILED" : text;
}

void add_unique(std::vector<std::string>& list, const std::string& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

/// One row per source, one column per destination.
PageTable matrix_of(const std::vector<const Record*>& records, std::string caption) {
  std::vector<std::string> rows, columns;
  std::map<std::pair<std::string, std::string>, std::string> cells;
  for (const Record* record : records) {
    add_unique(rows, text_axis(*record, "source")), add_unique(columns, text_axis(*record, "destination"));
    cells[{rows.back(), columns.back()}];
    cells[{text_axis(*record, "source"), text_axis(*record, "destination")}] = cell_text(*record);
  }
  // device pairs: same order for rows and columns
  if (std::is_permutation(rows.begin(), rows.end(), columns.begin(), columns.end())) columns = rows;
  std::vector<std::string> head{"from \\ to"};
  head.insert(head.end(), columns.begin(), columns.end());
  std::vector<std::vector<std::string>> lines;
  for (const std::string& row : rows) {
    std::vector<std::string> line{row};
    for (const std::string& column : columns) {
      const auto found = cells.find({row, column});
      line.push_back(found == cells.end() || found->second.empty() ? "-" : found->second);
    }
    lines.push_back(std::move(line));
  }
  return table_of_texts(std::move(caption), head, lines);
}

std::string heading(const Record& record, size_t samples) {
  const std::string test = text_axis(record, "test");
  const bool latency = find_series(record, "latency"), fitted = record.value("alpha").has_value();
  std::string text = test + ": " +
                     (latency  ? "us a load"
                      : fitted ? "alpha (us) + beta (GB/s)"
                               : "GB/s, row to column");
  if (samples > 0) text += fmt::format(", median of {}", samples);
  if (const int64_t bytes = axis<int64_t>(record, "bytes", 0); bytes > 0 && !fitted)
    text += fmt::format(", {} a copy", binary_bytes(bytes));
  return text;
}

size_t sample_count(const Record& record) {
  for (const char* name : {"bandwidth", "latency"})
    if (const Series* series = find_series(record, name)) return series->samples.size();
  return 0;
}

PageSection matrices_section(const std::vector<Record>& records) {
  PageSection section{"paths", "Every path", {}, {}, {}};
  for (const auto& [name, cells] : link_test_groups(records))
    section.tables.push_back(matrix_of(cells, heading(*cells.front(), sample_count(*cells.front()))));
  return section;
}

PageSection sizes_section(const std::vector<Record>& records) {
  PageSection section{"sizes", "Small and large copies", {}, {}, {}};
  add_chart(section, link_sweep_chart(records, "device_to_device_sweep", "copy engines"));
  add_chart(section, link_sweep_chart(records, "device_to_device_sweep_sm", "kernels"));
  if (!section.charts.empty())
    section.details.emplace_back(
        "Dashed: time = alpha + bytes / beta, fitted to the points. Alpha is what the smallest copy costs; where the "
        "curve bends, that cost and the transfer take as long as each other.");
  return section;
}

PageSection host_section(const std::vector<Record>& records) {
  PageSection section{"host", "Between host memory and devices", {}, {}, {}};
  add_chart(section, host_chart(records));
  return section;
}

}  // namespace

PageSection pairs_section(const std::vector<Record>& records, const MachineSpec& machine, double min_gbps) {
  PageSection section{"pairs", "Between devices", {}, {}, {}};
  add_chart(section, pair_bandwidth_chart(records, machine, min_gbps));
  add_chart(section, pair_latency_chart(records, machine));
  return section;
}

PageSection machine_section(const MachineSpec& machine) {
  PageSection section{"machine", "The machine", {}, {}, {}};
  const bool drawn = !machine.links.empty() || std::any_of(machine.devices.begin(), machine.devices.end(),
                                                           [](const auto& device) { return device.kind == "cuda"; });
  if (!drawn) return section;
  std::set<std::string> paths;
  for (const LinkSpec& link : machine.links) paths.insert(path_label(link));
  section.pictures.push_back(
      {"topology", fmt::format("Devices of {} and the links between them", machine.host),
       fmt::format("{} devices on {} NUMA node{}; paths between them: {}.", machine.devices.size(),
                   machine.num_numa_nodes, machine.num_numa_nodes == 1 ? "" : "s", fmt::join(paths, ", ")),
       topology_svg(machine)});
  return section;
}

Page links_page(const std::vector<Record>& records, const MachineSpec& machine, const std::vector<std::string>& slow,
                double min_gbps) {
  Page page;
  page.subject = {"link test", "link tests", "", page_devices(records)};
  page.title = fmt::format("Links of {}", machine.host);
  page.qualifier = page_qualifier(records);
  page.verdict = verdict_of(records, machine, slow.size());
  for (const std::string& fact :
       {pairs_fact(records, machine), integrity_fact(records), latency_fact(records), host_fact(records)})
    if (!fact.empty() && page.facts.size() < 3) page.facts.push_back(fact);
  PageSection pairs = pairs_section(records, machine, min_gbps);
  if (const ExpectedParts parts = expected_parts(machine); parts.pairs > 0)
    pairs.paragraphs.push_back(fmt::format("expected of the links found: {} ordered pairs reach {:.0f} to {:.0f} %",
                                           parts.pairs, 100 * parts.least, 100 * parts.most));
  add_section(page, std::move(pairs));
  add_section(page, machine_section(machine));
  add_section(page, sizes_section(records));
  add_section(page, host_section(records));
  add_section(page, tests_section(records));
  add_section(page, matrices_section(records));
  page.provenance = page_provenance(records);
  for (const std::string& line : slow) page.notes.push_back("SLOW " + line);
  for (const LinkSpec& link : machine.links)
    if (!link.quarantine.empty())
      page.notes.push_back(printable(fmt::format("QUARANTINED {}: {}", path_text(machine, link), link.quarantine)));
  add_status_notes(page, records, path_text);
  return page;
}

}  // namespace amdahl
