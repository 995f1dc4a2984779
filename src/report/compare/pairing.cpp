#include "report/compare/pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "amdahl/error.h"
#include "report/common/settings.h"
#include "report/common/words.h"

namespace amdahl {
namespace {

/// Axes of what is measured, not of how: cells that differ in them are never paired.
constexpr const char* kMeasured[] = {"model",      "num_parameters", "global_batch", "scaling",  "data",  "operation",
                                     "pattern",    "collective",     "bytes",        "count",    "op",    "test",
                                     "source",     "destination",    "dtype",        "workload", "items", "mode",
                                     "voxel_mode", "root",           "in_place"};

bool is_measured(const std::string& axis) {
  return std::find(std::begin(kMeasured), std::end(kMeasured), axis) != std::end(kMeasured);
}

/// The axes in which two cells differ; nullopt when they are different measurements.
std::optional<std::vector<AxisPair>> difference(const Axes& a, const Axes& b) {
  std::vector<AxisPair> pairs;
  if (a.size() != b.size()) return std::nullopt;
  for (auto left = a.begin(), right = b.begin(); left != a.end(); ++left, ++right) {
    if (left->first != right->first) return std::nullopt;
    if (left->second == right->second) continue;
    if (is_measured(left->first)) return std::nullopt;
    pairs.push_back({left->first, axis_text(left->second), axis_text(right->second)});
  }
  return pairs;
}

constexpr size_t kMostPairs = 1'000'000;  // limit of cell pairs examined

}  // namespace

Axes paired_axes(Axes axes, const std::vector<AxisPair>& pairs, bool of_a) {
  for (const AxisPair& pair : pairs) {
    const auto found = axes.find(pair.axis);
    if (found != axes.end() && axis_text(found->second) == (of_a ? pair.a : pair.b))
      found->second = fmt::format("{}:{}", pair.a, pair.b);
  }
  return axes;
}

void require_paired_values(const std::vector<Record>& records, const std::string& name,
                           const std::vector<AxisPair>& pairs, bool of_a) {
  for (const AxisPair& pair : pairs) {
    std::set<std::string> values;
    for (const Record& record : records)
      if (const auto found = record.axes.find(pair.axis); found != record.axes.end())
        values.insert(printable(axis_text(found->second), 60));
    const std::string& wanted = of_a ? pair.a : pair.b;
    if (values.contains(wanted)) continue;
    throw Error(Cause::usage,
                fmt::format("{}: {} has no cell with {}={}", format_pair({pair}), name, pair.axis, wanted),
                values.empty() ? fmt::format("another axis: {} is none of this run", pair.axis)
                               : fmt::format("{} of {}: {}", pair.axis, name, fmt::join(values, ", ")));
  }
}

PairProposal propose_pairs(const std::vector<Axes>& only_a, const std::vector<Axes>& only_b) {
  PairProposal best;
  if (only_a.size() * only_b.size() > kMostPairs) return best;
  std::map<std::string, PairProposal> proposals;  // by their text
  for (const Axes& a : only_a)
    for (const Axes& b : only_b)
      if (const auto pairs = difference(a, b); pairs && !pairs->empty()) {
        PairProposal& proposal = proposals[format_pair(*pairs)];
        proposal.pairs = *pairs;
        ++proposal.num_cells;
      }
  for (const auto& [words, proposal] : proposals) {
    const bool simpler = best.pairs.empty() || proposal.pairs.size() < best.pairs.size();
    if (simpler || (proposal.pairs.size() == best.pairs.size() && proposal.num_cells > best.num_cells)) best = proposal;
  }
  return best;
}

std::string format_pair(const std::vector<AxisPair>& pairs) {
  std::vector<std::string> words;
  for (const AxisPair& pair : pairs)
    words.push_back(fmt::format("{} {}={}:{}", named("`pairs`"), pair.axis, pair.a, pair.b));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string pair_text(const std::vector<AxisPair>& pairs, const std::string& name_a, const std::string& name_b) {
  std::vector<std::string> words;
  for (const AxisPair& pair : pairs)
    words.push_back(fmt::format("{} {} of {} with {} of {}", format_axis(pair.axis),
                                axis_value(pair.axis, typed_value(pair.a)), name_a,
                                axis_value(pair.axis, typed_value(pair.b)), name_b));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string proposal_text(const PairProposal& proposal, const std::string& name_a, const std::string& name_b) {
  std::vector<std::string> words;
  for (const AxisPair& pair : proposal.pairs)
    words.push_back(fmt::format("{} ({} in {}, {} in {})", format_axis(pair.axis),
                                axis_value(pair.axis, typed_value(pair.a)), name_a,
                                axis_value(pair.axis, typed_value(pair.b)), name_b));
  return fmt::format("{} cell{} of each side differ{} in {} alone; to compare {}: {}", proposal.num_cells,
                     proposal.num_cells == 1 ? "" : "s", proposal.num_cells == 1 ? "s" : "", fmt::join(words, " and "),
                     proposal.num_cells == 1 ? "it" : "them", format_pair(proposal.pairs));
}

}  // namespace amdahl
