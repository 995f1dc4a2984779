// Sentences and tables of a comparison.
#pragma once

#include <string>
#include <vector>

#include "amdahl/comparison.h"
#include "report/common/words.h"

namespace amdahl {

/// The cells of one kind and series. Every row is one candidate in one cell; speeds are relative to the baseline.
struct ComparisonTable {
  std::string title;  // "time in us, fuse, 2 devices"
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> names;            // one per row: "global batch 64, 2 devices"
  std::vector<const CellComparison*> cells;  // one per row; owned by the comparison
};

/// "B is slower than A in 2 of 2 cells (median speed 0.83x)." one sentence per candidate.
std::string comparison_verdict(const RunsComparison& comparison);
std::vector<ComparisonTable> comparison_tables(const RunsComparison& comparison);
/// What was not compared, and other remarks for the caller.
std::vector<std::string> comparison_remarks(const RunsComparison& comparison);
/// "A" for the baseline, "B", "C", ... for the others; "AA" follows "Z".
std::string run_letter(size_t index);

}  // namespace amdahl
