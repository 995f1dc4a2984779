// Whether to use one device or several for a model and batch, and on what evidence.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// `measured` answers from records only; `study` repeats the thresholds of the published study, contradictions named.
enum class AdvicePolicy { measured, study };

struct AdviceRequest {
  std::string model{};  // as the user named it; may be empty
  int64_t num_parameters = 0;
  int64_t global_batch = 0;
  int64_t max_devices = 2;    // devices at hand
  std::string device_kind{};  // empty: any; else evidence of another kind is not used
};

/// decision: "single", "multi", "evaluate", "benchmark" or "unknown".
struct Advice {
  std::string decision = "unknown";
  std::string reason;
  std::vector<std::string> evidence;          // one line each, with unit, n and origin
  std::vector<std::string> modes_to_measure;  // "single", "multi"
  std::string command;                        // what would measure it; empty when nothing is missing
};

}  // namespace amdahl
