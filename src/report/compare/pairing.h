// Pairs cells of two runs that differ in how the work is done, not in what is measured: finds, proposes and applies
// pairs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "amdahl/comparison.h"
#include "amdahl/record.h"

namespace amdahl {

using Axes = std::map<std::string, AxisValue>;

/// The axes with every paired value replaced by a common one, "ddp:zero1", so that the cells of both sides match.
Axes paired_axes(Axes axes, const std::vector<AxisPair>& pairs, bool of_a);

/// Error{usage} when a side has no record with a value to be paired; it lists the values it has.
void require_paired_values(const std::vector<Record>& records, const std::string& name,
                           const std::vector<AxisPair>& pairs, bool of_a);

struct PairProposal {
  std::vector<AxisPair> pairs;  // empty: no proposal
  int64_t num_cells = 0;        // cells per side that it would compare
};
/// The pairs that match the most cells which only one side has, with the fewest axes. Axes of the workload or its size
/// (model, batch, bytes) are never proposed.
PairProposal propose_pairs(const std::vector<Axes>& only_a, const std::vector<Axes>& only_b);

/// "`pairs` strategy=ddp:zero1", as users write it.
std::string format_pair(const std::vector<AxisPair>& pairs);
/// "strategy ddp of A with zero1 of B".
std::string pair_text(const std::vector<AxisPair>& pairs, const std::string& name_a, const std::string& name_b);
/// "4 cells of each side differ in strategy (ddp in A, zero1 in B) alone; to compare them: `pairs` strategy=ddp:zero1".
std::string proposal_text(const PairProposal& proposal, const std::string& name_a, const std::string& name_b);

}  // namespace amdahl
