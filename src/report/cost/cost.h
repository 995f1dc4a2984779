// From records and a price table to what work costs. Pure; the formulas are those of docs/cost.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/cost.h"
#include "amdahl/prices.h"
#include "stats/bootstrap.h"

namespace amdahl {

/// A run that was read: a study by its summary (and its records where they are at hand), or records of sensors.
struct CostRun {
  std::string name;
  std::optional<StudySummary> study;
  std::vector<Record> records;
};

/// A row for every configuration with a result; every row of several devices against the best row of one device of its
/// kind at the same work and size, over all runs. Throws Error{usage} without any result and for CPU virtual devices
/// beside GPUs, and Error{store_corrupt} for a damaged record.
CostReport summarise_cost(const std::vector<CostRun>& runs, const PriceTable& prices);

/// One sentence with numbers for who decides.
std::string cost_verdict(const CostReport& report);
std::string cost_text(const CostReport& report);
std::string cost_markdown(const CostReport& report);

/// The works of a report, in the order of their first row, with the indices of their rows.
struct CostWork {
  std::string work;
  std::vector<size_t> rows;
};
std::vector<CostWork> works_of(const CostReport& report);

}  // namespace amdahl
