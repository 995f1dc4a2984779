// Shared by the pages of all kinds of run: heading, provenance, notes, numbers with their intervals.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"
#include "report/page/page.h"

namespace amdahl {

/// "measured on CPU virtual devices, not GPUs", with a remark on emulated numbers; empty when neither applies.
std::string page_qualifier(const std::vector<Record>& records);

/// Machine, devices, versions, tool, command lines: each with all its distinct values.
std::vector<std::pair<std::string, std::string>> page_provenance(const std::vector<Record>& records);
std::vector<std::pair<std::string, std::string>> page_provenance(const std::vector<Provenance>& all);

/// "4 x NVIDIA H200", or "2 CPU virtual devices".
std::string devices_text(const Provenance& provenance);

/// The devices of all records; of the largest machine when they differ; empty without records.
std::string page_devices(const std::vector<Record>& records);
/// The host of the first record, or "an unknown host".
std::string page_host(const std::vector<Record>& records);

/// The low or high end of an interval; missing without one.
TableValue end_of(const std::optional<Interval>& ci, bool low);

/// A number, times `factor`; missing without one.
TableValue optional_value(const std::optional<double>& value, double factor = 1);

/// A number for the start of a sentence, "396.1 GB/s", and its basis, "median, 95 % CI 396.0 to 396.2, n = 3".
struct Figure {
  std::string number, basis;
};
/// A median of `count` samples.
Figure figure_of(const Estimate& median, std::string_view unit, size_t count);
/// `samples` must not be empty.
Figure median_figure(const std::vector<double>& samples, std::string_view unit);

/// Appends the chart if there is one.
void add_chart(PageSection& section, std::optional<Chart> chart);
/// Appends the section unless it is empty.
void add_section(Page& page, PageSection section);

/// A table of texts; its columns are named by their titles.
PageTable table_of_texts(std::string caption, const std::vector<std::string>& head,
                         const std::vector<std::vector<std::string>>& rows);

/// Removes the named columns.
void remove_columns(PageTable& table, const std::vector<std::string>& columns);

/// Adds one note per failed or waived record, starting with its `name`; duplicates are dropped.
void add_status_notes(Page& page, const std::vector<Record>& records, std::string (*name)(const Record&));

/// Converts `text` to part of an anchor: [a-z0-9-].
std::string slug(std::string_view text);

}  // namespace amdahl
