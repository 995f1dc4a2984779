// Computes the cost of work from records and a price table. Pure; docs/cost.md has the formulas.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/report.h"
#include "report/page/page.h"
#include "stats/bootstrap.h"

namespace amdahl {

/// One input run: a study by its summary (with its records if available), or sensor records.
struct CostRun {
  std::string name;
  std::optional<StudySummary> study;
  std::vector<Record> records;
};

/// One row per configuration with a result. Every multi-device row is compared with the best one-device row of its
/// device kind for the same work and size, over all runs. Throws Error{usage} when there is no result and for CPU
/// virtual devices mixed with GPUs, and Error{store_corrupt} for a damaged record.
CostReport summarise_cost(const std::vector<CostRun>& runs, const PriceTable& prices);

/// One sentence with numbers for the decision.
std::string cost_verdict(const CostReport& report);

/// The kinds of work in a report, in the order of their first row, with the indices of their rows.
struct CostWork {
  std::string work;
  std::vector<size_t> rows;
};
std::vector<CostWork> works_of(const CostReport& report);

/// `json`: the JSON output of cost, embedded so that the page can be read back.
Page cost_page(const CostReport& report, const std::string& json);

}  // namespace amdahl
