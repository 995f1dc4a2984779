// What the pages of every kind of run share: head, provenance, notes, numbers with their intervals.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"
#include "report/page/page.h"

namespace amdahl {

/// "measured on CPU virtual devices, not GPUs", with a word on emulated numbers; empty where nothing needs to be said.
std::string page_qualifier(const std::vector<Record>& records);

/// Machine, devices, versions, tool, command lines: each with all its values.
std::vector<std::pair<std::string, std::string>> page_provenance(const std::vector<Record>& records);

/// "4 x NVIDIA H200", or "2 CPU virtual devices".
std::string devices_text(const Provenance& provenance);

/// The same of all records: of the largest machine, where they differ; empty without records.
std::string page_devices(const std::vector<Record>& records);
/// The host of the first record, or "an unknown host".
std::string page_host(const std::vector<Record>& records);

/// An end of an interval, empty without one.
TableValue end_of(const std::optional<Interval>& ci, bool low);
/// All samples of a series; empty without it.
const std::vector<double>& samples_of(const Record& record, std::string_view series);

/// A number for a sentence that begins with it: "396.1 GB/s", and "median, 95 % CI 396.0 to 396.2, n = 3" behind it.
struct Figure {
  std::string number, basis;
};
/// `samples` holds at least one.
Figure median_figure(const std::vector<double>& samples, std::string_view unit);
Figure mean_figure(const std::vector<double>& samples, std::string_view unit);

/// The charts there are.
void add_chart(PageSection& section, std::optional<Chart> chart);
/// Sections that say something.
void add_section(Page& page, PageSection section);

/// Takes the named columns out of a table of several rows where all of them say the same, and says it once in
/// PageTable::common; a column without any value goes as well.
void fold_constant_columns(PageTable& table, const std::vector<std::string>& columns);

/// A note a record that failed or was waived, `name` first; each text once.
void add_status_notes(Page& page, const std::vector<Record>& records, std::string (*name)(const Record&));

/// `text` as part of an anchor: [a-z0-9-].
std::string slug(std::string_view text);

}  // namespace amdahl
