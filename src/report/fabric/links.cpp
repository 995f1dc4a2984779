#include "report/fabric/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "amdahl/units.h"
#include "base/record_values.h"
#include "report/common/aligned_table.h"
#include "report/common/words.h"
#include "report/fabric/link_figures.h"
#include "stats/percentile.h"

namespace amdahl {
namespace {

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
  if (alpha && beta) text = fmt::format("{:.2f}+{:.1f}", *alpha, *beta);
  return record.status.kind == Status::Kind::failed ? text + " FAILED" : text;
}

void add_unique(std::vector<std::string>& list, const std::string& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

std::string matrix_of(const std::vector<const Record*>& records) {
  std::vector<std::string> rows, columns;
  std::map<std::pair<std::string, std::string>, std::string> cells;
  for (const Record* record : records) {
    add_unique(rows, text_axis(*record, "source")), add_unique(columns, text_axis(*record, "destination"));
    cells[{rows.back(), columns.back()}];
    cells[{text_axis(*record, "source"), text_axis(*record, "destination")}] = cell_text(*record);
  }
  // device pairs: same order for rows and columns
  if (rows.size() > 1 && rows.size() == columns.size()) columns = rows;
  std::vector<std::vector<std::string>> table{{""}};
  for (const std::string& column : columns) table[0].push_back(column);
  for (const std::string& row : rows) {
    std::vector<std::string> line{row};
    for (const std::string& column : columns) {
      const auto found = cells.find({row, column});
      line.push_back(found == cells.end() || found->second.empty() ? "-" : found->second);
    }
    table.push_back(std::move(line));
  }
  return aligned_table(table);
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
  return text + '\n';
}

size_t sample_count(const Record& record) {
  for (const char* name : {"bandwidth", "latency"})
    if (const Series* series = find_series(record, name)) return series->samples.size();
  return 0;
}

std::string integrity_text(const std::vector<Record>& records) {
  const IntegrityTotals totals = integrity_totals(records);
  std::string faults;
  if (totals.injected > 0)
    faults += fmt::format("{:.0f} of {:.0f} injected corruptions were found, each with its place and kind\n",
                          totals.found, totals.injected);
  for (const Record& record : records)
    if (record.kind == "integrity" && record.status.kind == Status::Kind::failed)
      faults += fmt::format("  CORRUPT {} -> {}, {}: {}\n", text_axis(record, "source"),
                            text_axis(record, "destination"), text_axis(record, "way"), record.status.reason);
  if (totals.paths == 0) return faults;
  return fmt::format("integrity: {} bytes in {} transfers over {} paths, {} bytes wrong{}\n",
                     with_thousands(static_cast<int64_t>(totals.bytes)),
                     with_thousands(static_cast<int64_t>(totals.transfers)), totals.paths - totals.waived,
                     with_thousands(static_cast<int64_t>(totals.bad_bytes)),
                     totals.waived ? fmt::format("; {} paths waived, kernels do not reach", totals.waived) : "") +
         faults;
}

std::string expectation_text(const MachineSpec& machine) {
  const ExpectedParts parts = expected_parts(machine);
  if (parts.pairs == 0) return {};
  return fmt::format("expected of the links found: {} ordered pairs reach {:.0f} to {:.0f} %\n", parts.pairs,
                     100 * parts.least, 100 * parts.most);
}

std::string notes_of(const std::vector<const Record*>& records) {
  std::vector<std::string> reasons;
  for (const Record* record : records)
    if (record->status.kind != Status::Kind::ok)
      add_unique(reasons,
                 fmt::format("  {} -> {}: {}: {}\n", text_axis(*record, "source"), text_axis(*record, "destination"),
                             record->status.kind == Status::Kind::waived ? "waived" : "FAILED", record->status.reason));
  std::string text;
  for (const std::string& reason : reasons) text += reason;
  return text;
}

}  // namespace

std::string links_text(const std::vector<Record>& records, const MachineSpec& machine,
                       const std::vector<std::string>& slow) {
  std::string text;
  if (!records.empty() && records.front().provenance.device_kind == "cpu-virtual")
    text += "CPU virtual devices: threads that copy within the host's memory, not links\n\n";
  for (const auto& [name, cells] : link_test_groups(records))
    text += heading(*cells.front(), sample_count(*cells.front())) + matrix_of(cells) + notes_of(cells) + '\n';
  text += integrity_text(records) + expectation_text(machine);
  for (const std::string& line : slow) text += "SLOW " + line + '\n';
  for (const LinkSpec& link : machine.links)
    if (!link.quarantine.empty())
      text += fmt::format("QUARANTINED {} -> {}: {}\n", link.source, link.destination, link.quarantine);
  return text;
}

}  // namespace amdahl
