// Compares the records of an arena, size by size.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// The transport used by default: "nccl" between GPUs, "threads" in host memory.
std::string_view default_transport(std::string_view device_kind);

/// One transport at one size.
struct ArenaEntry {
  const Record* record;
  std::string transport;
  std::optional<double> time_us;  // nullopt: it failed
};

/// All transports at one size of one sweep, on devices of one kind.
struct ArenaMatch {
  std::string title, device_kind;
  std::vector<ArenaEntry> entries;

  /// fastest() is null when all failed; find() when the transport is missing or failed.
  const ArenaEntry* fastest() const;
  const ArenaEntry* find(std::string_view transport) const;
  const ArenaEntry* standard() const { return find(default_transport(device_kind)); }
};

std::vector<ArenaMatch> arena_matches(const std::vector<Record>& records);

/// Transports of that device kind with their number of wins, most wins first.
std::vector<std::pair<std::string, int>> arena_wins(const std::vector<ArenaMatch>& matches, std::string_view kind);
/// Time of the default transport above the fastest, in percent, at each size where the default was measured.
std::vector<double> default_losses(const std::vector<ArenaMatch>& matches, std::string_view kind);

double percent_above(double value, double reference);

}  // namespace amdahl
