#include "measure/sensor_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "stats/stopping.h"

namespace amdahl {

std::vector<std::vector<double>> exchange_numbers(Communicator& communicator, const std::vector<double>& own,
                                                  Deadline deadline) {
  std::string text;
  for (const double value : own) text += fmt::format("{:.17g} ", value);
  std::vector<std::vector<double>> all;
  for (const std::string& message : communicator.exchange(text, deadline)) {
    std::vector<double>& values = all.emplace_back();
    const char* at = message.c_str();
    for (char* end = nullptr;; at = end) {
      const double value = std::strtod(at, &end);
      if (end == at) break;
      values.push_back(value);
    }
  }
  return all;
}

std::string first_trouble(Communicator& communicator, const std::string& own, Deadline deadline) {
  const std::vector<std::string> all = communicator.exchange(own, deadline);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty()) return fmt::format("device {}: {}", rank, all[rank]);
  return {};
}

std::string trouble_of_making(Communicator& communicator, Deadline deadline, const std::function<void()>& make) {
  std::string own;
  try {
    make();
  } catch (const Error& error) {
    if (error.cause() != Cause::out_of_memory) throw;
    own = error.what();
  }
  return first_trouble(communicator, own, deadline);
}

void warm_up_together(Communicator& communicator, double timeout_seconds, const std::function<double()>& sample_us) {
  constexpr size_t kMostBlocks = 30;
  std::vector<double> blocks;
  do {
    double slowest = 0;
    for (const auto& rank : exchange_numbers(communicator, {sample_us()}, Deadline::after_seconds(timeout_seconds)))
      slowest = std::max(slowest, rank.front());
    blocks.push_back(slowest);
  } while (!warmed_up(blocks) && blocks.size() < kMostBlocks);
}

void pack_numbers(std::vector<double>& packed, const std::vector<double>& values) {
  packed.push_back(static_cast<double>(values.size()));
  packed.insert(packed.end(), values.begin(), values.end());
}

std::vector<double> unpack_numbers(const std::vector<double>& packed, size_t& at) {
  const auto count = static_cast<size_t>(packed.at(at++));
  const auto begin = packed.begin() + static_cast<std::ptrdiff_t>(at);
  at += count;
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

}  // namespace amdahl
