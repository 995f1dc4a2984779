// Finds the one-device baseline of a multi-device result; shared by studies, sensor records and costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace amdahl {

/// A measured configuration that may be a baseline.
struct BaselineCandidate {
  bool is_alone = false;  // result of one device, or of sequential execution; others are never chosen
  std::string work;       // what both sides must have in common, except size and devices
  int64_t size = 0;       // size of a step or call: batch, items
  std::string manner;     // may differ, equality is preferred: scaling, launch
  std::string device;     // device name, if BaselineQuery filters by it
  double speed = 0;       // the fastest candidate is chosen, the first on ties
};

struct BaselineQuery {
  std::string work;
  int64_t size = 0;  // size for one device: size_of_one_device
  std::string manner{};
  std::vector<std::string> devices{};  // the candidate's device must be one of them; empty: any
};

/// Index of the baseline; nullopt when none was measured.
std::optional<size_t> find_baseline(const std::vector<BaselineCandidate>& candidates, const BaselineQuery& query);

/// The size at which one device does the same work: its share of `size` under weak scaling, otherwise all of it.
int64_t size_of_one_device(int64_t size, int64_t devices, std::string_view scaling);

}  // namespace amdahl
