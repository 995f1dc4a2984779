// A comparison as sentences and tables, the same on the terminal, in Markdown and on a page.
#pragma once

#include <string>
#include <vector>

#include "amdahl/comparison.h"
#include "report/common/words.h"

namespace amdahl {

/// One kind of cell and series. Every row is one candidate in one cell; speeds are over the baseline's.
struct ComparisonTable {
  std::string title;  // "time in us, op fuse, devices 2"
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  std::vector<const CellComparison*> cells;  // of the rows; the comparison's
};

/// "B is slower than A in 2 of 2 cells (median speed 0.83x)." for every candidate.
std::string comparison_verdict(const RunsComparison& comparison);
std::vector<ComparisonTable> comparison_tables(const RunsComparison& comparison, Charset charset);
/// What was not compared, and what the caller should know.
std::vector<std::string> comparison_remarks(const RunsComparison& comparison);
/// "A" of the baseline, "B", "C", ... of the others; after "Z" "AA".
std::string run_letter(size_t index);

/// The verdict, who is who, the tables, the remarks.
std::string comparison_text(const RunsComparison& comparison);
std::string comparison_markdown(const RunsComparison& comparison);

}  // namespace amdahl
