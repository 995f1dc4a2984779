// Advice whether to use one device or several for a model and batch size, with its evidence. Plain data.
//
// Example:
//   amdahl::AdviseConfig config;  // of amdahl/amdahl.h
//   config.model = "medium";
//   config.evidence = "runs/study";
//   std::puts(amdahl::run_advise(config).reason.c_str());
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// `measured` uses records only; `study` applies the thresholds of the published study and names its contradictions.
enum class AdvicePolicy { measured, study };

struct AdviceRequest {
  std::string model{};  // as named by the user; may be empty
  int64_t num_parameters = 0;
  int64_t global_batch = 0;
  int64_t max_devices = 2;    // available devices
  std::string device_kind{};  // ignores evidence of other kinds; empty: any kind
};

struct Advice {
  std::string decision = "unknown";  // single, multi, evaluate, benchmark, unknown
  std::string reason;
  std::vector<std::string> evidence;          // one line per item, with unit, n and origin
  std::vector<std::string> modes_to_measure;  // "single", "multi"
  std::string command;  // command that measures the missing evidence; empty when nothing is missing
};

}  // namespace amdahl
