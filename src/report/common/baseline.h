// Which result of one device a result of several is compared with: one search for studies, sensor records and costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace amdahl {

/// A measured configuration that others may be compared with.
struct BaselineCandidate {
  bool is_alone = false;  // by one device, or in sequence, with a result; others are never chosen
  std::string work;       // what both sides must have in common, size and devices apart
  int64_t size = 0;       // of a step or call: batch, items
  std::string manner;     // what may differ and is preferred to be the same: scaling, launch
  std::string device;     // name, where BaselineQuery asks for it
  double speed = 0;       // of several the fastest is chosen, of equal ones the first
};

struct BaselineQuery {
  std::string work;
  int64_t size = 0;  // that one device has to do: size_of_one_device
  std::string manner{};
  std::vector<std::string> devices{};  // the candidate's device must be one of them; empty: any
};

/// Index of the baseline; nothing when none was measured.
std::optional<size_t> find_baseline(const std::vector<BaselineCandidate>& candidates, const BaselineQuery& query);

/// The size at which one device does the same work: under weak scaling its share of `size`, otherwise all of it.
int64_t size_of_one_device(int64_t size, int64_t devices, std::string_view scaling);

}  // namespace amdahl
