// Records of the arena set against each other, size by size.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// The transport that a user gets who chooses none: "nccl" between GPUs, "threads" in host memory.
std::string_view default_transport(std::string_view device_kind);

/// One transport at one size.
struct ArenaEntry {
  const Record* record;
  std::string transport;
  std::optional<double> time_us;  // absent: it failed
};

/// All transports at one size of one sweep, on devices of one kind.
struct ArenaMatch {
  std::string title, device_kind;
  std::vector<ArenaEntry> entries;

  /// Null when all failed; null without that transport, or when it failed.
  const ArenaEntry* fastest() const;
  const ArenaEntry* find(std::string_view transport) const;
  const ArenaEntry* standard() const { return find(default_transport(device_kind)); }
};

std::vector<ArenaMatch> arena_matches(const std::vector<Record>& records);

/// Names with how often each was the fastest on devices of that kind, the most often first.
std::vector<std::pair<std::string, int>> arena_wins(const std::vector<ArenaMatch>& matches, std::string_view kind);
/// What the default of that kind loses against the fastest, percent, at each size that it was measured at.
std::vector<double> default_losses(const std::vector<ArenaMatch>& matches, std::string_view kind);

double percent_above(double value, double reference);

}  // namespace amdahl
