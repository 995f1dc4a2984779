// Unequal shares of the rows: their text, their number, and the rows of each rank.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "amdahl/error.h"
#include "plan/shares.h"

namespace amdahl {
namespace {

constexpr size_t kMostRanks = 8;
constexpr int kBits = 7, kMostWeight = (1 << kBits) - 1;

[[noreturn]] void refuse_shares(std::string_view text) {
  throw Error(Cause::usage, fmt::format("shares is '{}'", printable(text, 40)),
              fmt::format("equal, auto, or up to {} weights of at most {} like 3:1", kMostRanks, kMostWeight));
}

}  // namespace

int64_t pack_shares(const std::vector<int>& weights) {
  int64_t packed = 0;
  const auto fits = [](int weight) { return weight >= 0 && weight <= kMostWeight; };
  if (weights.empty() || weights.size() > kMostRanks || !std::all_of(weights.begin(), weights.end(), fits))
    refuse_shares(fmt::format("{}", fmt::join(weights, ":")));
  for (size_t i = 0; i < weights.size(); ++i) packed |= int64_t{weights[i]} << (kBits * static_cast<int>(i));
  if (packed == kEqualShares) refuse_shares(fmt::format("{}", fmt::join(weights, ":")));
  return packed;
}

std::vector<int> unpack_shares(int64_t shares) {
  std::vector<int> weights;
  if (shares == kEqualShares || shares == kAutoShares) return weights;
  for (; shares > 0; shares >>= kBits) weights.push_back(static_cast<int>(shares & kMostWeight));
  return weights;
}

std::string shares_text(int64_t shares) {
  if (shares == kEqualShares) return "equal";
  if (shares == kAutoShares) return "auto";
  return fmt::format("{}", fmt::join(unpack_shares(shares), ":"));
}

int64_t parse_shares(std::string_view text) {
  if (text == "equal") return kEqualShares;
  if (text == "auto") return kAutoShares;
  std::vector<int> weights;
  for (const char *at = text.data(), *const end = at + text.size(); at <= end;) {
    int weight = 0;
    const auto [after, error] = std::from_chars(at, end, weight);
    if (error != std::errc{} || (after != end && *after != ':') || weight < 0 || weight > kMostWeight)
      refuse_shares(text);
    weights.push_back(weight);
    at = after + 1;
  }
  if (weights.size() > kMostRanks) refuse_shares(text);
  return pack_shares(weights);
}

int64_t shares_by_speed(const std::vector<double>& rows_per_second) {
  const double fastest = *std::max_element(rows_per_second.begin(), rows_per_second.end());
  std::vector<int> weights;
  for (const double speed : rows_per_second)
    weights.push_back(std::clamp(static_cast<int>(std::lround(kMostWeight * speed / fastest)), 1, kMostWeight));
  return pack_shares(weights);
}

RowRange virtual_shards_of(const ParallelPlan& plan, int rank) {
  return even_share(plan.virtual_shards, plan.mesh.dp, rank);
}

int64_t most_virtual_shards(const ParallelPlan& plan) { return virtual_shards_of(plan, 0).rows(); }

int64_t num_micro_batches(const ParallelPlan& plan, int rank) {
  return plan.virtual_shards > 0 ? virtual_shards_of(plan, rank).rows() : plan.accumulate;
}

RowRange micro_batch_rows(const ParallelPlan& plan, bool whole, int rank, int64_t micro_batch) {
  if (plan.virtual_shards > 0)
    return even_share(plan.global_batch, plan.virtual_shards, virtual_shards_of(plan, rank).begin + micro_batch);
  const RowRange mine = whole ? RowRange{0, plan.global_batch} : data_share(plan, rank);
  const RowRange part = even_share(mine.rows(), plan.accumulate, micro_batch);
  return {mine.begin + part.begin, mine.begin + part.end};
}

int64_t most_micro_batch_rows(const ParallelPlan& plan, bool whole) {
  if (plan.virtual_shards > 0) return even_share(plan.global_batch, plan.virtual_shards, 0).rows();
  return even_share(whole ? plan.global_batch : most_data_rows(plan), plan.accumulate, 0).rows();
}

RowRange data_share(const ParallelPlan& plan, int rank) {
  if (plan.virtual_shards > 0) {
    const int64_t count = num_micro_batches(plan, rank);
    return {micro_batch_rows(plan, false, rank, 0).begin, micro_batch_rows(plan, false, rank, count - 1).end};
  }
  const std::vector<int> weights = unpack_shares(plan.shares);
  if (weights.size() != static_cast<size_t>(plan.mesh.dp)) return even_share(plan.global_batch, plan.mesh.dp, rank);
  int64_t sum = 0, below = 0;
  for (const int weight : weights) sum += weight;
  for (int i = 0; i < rank; ++i) below += weights[static_cast<size_t>(i)];
  // The nearest row to the exact border: every row belongs to one rank, whatever the weights.
  const auto border = [&](int64_t weight) { return (2 * plan.global_batch * weight + sum) / (2 * sum); };
  return {border(below), border(below + weights[static_cast<size_t>(rank)])};
}

int64_t most_data_rows(const ParallelPlan& plan) {
  int64_t most = 0;
  for (int rank = 0; rank < plan.mesh.dp; ++rank) most = std::max(most, data_share(plan, rank).rows());
  return most;
}

int64_t fewest_data_rows(const ParallelPlan& plan) {
  int64_t fewest = plan.global_batch;
  for (int rank = 0; rank < plan.mesh.dp; ++rank) fewest = std::min(fewest, data_share(plan, rank).rows());
  return fewest;
}

}  // namespace amdahl
