// Cells of two runs that differ in how, not in what, is measured: found, proposed and taken for the same cell.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "amdahl/comparison.h"
#include "amdahl/record.h"

namespace amdahl {

using Axes = std::map<std::string, AxisValue>;

/// The axes as the other side's cell has them: a paired value becomes "ddp:zero1" on both.
Axes paired_axes(Axes axes, const std::vector<AxisPair>& pairs, bool of_a);

/// Error{usage} when a side has no record with the value that is to be paired, naming those it has.
void require_paired_values(const std::vector<Record>& records, const std::string& name,
                           const std::vector<AxisPair>& pairs, bool of_a);

struct PairProposal {
  std::vector<AxisPair> pairs;  // none: nothing to propose
  int64_t num_cells = 0;        // of each side that this would compare
};
/// What would compare most of the cells that only one side has, with the fewest axes. Axes that say what or how much is
/// measured (model, batch, bytes) are never proposed.
PairProposal propose_pairs(const std::vector<Axes>& only_a, const std::vector<Axes>& only_b);

/// "`pairs` strategy=ddp:zero1", as users know it.
std::string format_pair(const std::vector<AxisPair>& pairs);
/// "strategy ddp of A with zero1 of B".
std::string pair_text(const std::vector<AxisPair>& pairs, const std::string& name_a, const std::string& name_b);
/// "4 cells of each side differ in strategy (ddp in A, zero1 in B) alone; to compare them: `pairs` strategy=ddp:zero1".
std::string proposal_text(const PairProposal& proposal, const std::string& name_a, const std::string& name_b);

}  // namespace amdahl
