// ParallelPlan: how a model is spread over devices.
#pragma once

#include <cstdint>
#include <string>

#include "amdahl/error.h"

namespace amdahl {

enum class BackendKind { cpu, cuda };
enum class LaunchMode { eager, graph };
enum class MathMode { fp32, tf32, bf16 };
enum class Scaling { strong, weak };

AMDAHL_API std::string_view to_string(BackendKind kind);
AMDAHL_API std::string_view to_string(LaunchMode mode);
AMDAHL_API std::string_view to_string(MathMode mode);
AMDAHL_API std::string_view to_string(Scaling scaling);

/// How one training step runs on `num_devices` devices. `strategy` is a row of the parallel strategy table.
struct ParallelPlan {
  std::string strategy = "single";
  int num_devices = 1;
  int64_t global_batch = 0;         // rows per optimizer step over all devices
  int accumulate = 1;               // micro-batches per optimizer step
  int64_t bucket_bytes = 25 << 20;  // all-reduce bucket capacity
  bool overlap = true;              // all-reduce while backward goes on

  int peer_blocks = 0;  // thread blocks of a kernel that reaches other devices' memory beside backward; 0: chosen

  /// Rows of one device in one micro-batch (`replicated` and `single`: all rows).
  int64_t local_rows() const;
};

}  // namespace amdahl
