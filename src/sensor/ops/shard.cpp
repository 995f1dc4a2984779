#include "sensor/ops/shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "amdahl/error.h"

namespace amdahl {
namespace {

std::vector<ItemRange> ranges_of(const std::vector<int64_t>& sizes) {
  std::vector<ItemRange> ranges;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    ranges.push_back({begin, begin + size});
    begin += size;
  }
  return ranges;
}

}  // namespace

std::vector<ItemRange> split_evenly(int64_t num_items, int num_parts) {
  return split_by_weight(num_items, std::vector<double>(static_cast<size_t>(num_parts), 1.0));
}

std::vector<ItemRange> split_by_weight(int64_t num_items, const std::vector<double>& weights) {
  long double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0) || !std::isfinite(weight))
      throw Error(Cause::usage, fmt::format("a share of the work is {}", weight), "finite shares, 0 or more");
    sum += weight;
  }
  if (!(sum > 0)) throw Error(Cause::usage, "no device has a share of the work", "a share above 0");
  std::vector<int64_t> sizes;
  std::vector<long double> remainders;
  for (const double weight : weights) {
    const long double share = static_cast<long double>(num_items) * weight / sum;
    sizes.push_back(static_cast<int64_t>(std::floor(share)));
    remainders.push_back(share - std::floor(share));
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return remainders[a] > remainders[b]; });
  int64_t left = num_items - std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  for (size_t i = 0; left > 0; i = (i + 1) % order.size())
    if (weights[order[i]] > 0) ++sizes[order[i]], --left;
  return ranges_of(sizes);
}

}  // namespace amdahl
