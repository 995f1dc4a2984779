// A kind of GPU by its data sheet, for predictions about GPUs that are not at hand. Plain data.
//
// Example:
//   const amdahl::GpuKind gpu = amdahl::load_gpu_kind("data/gpu-a100-40gb.toml");
//   std::printf("%s: %g TFLOP/s in bf16\n", gpu.name.c_str(), gpu.bf16_tflops);
#pragma once

#include <string>

#include "amdahl/error.h"

namespace amdahl {

/// Figures of a data sheet; rates of dense matrix products, 1 GB = 10^9 bytes.
struct GpuKind {
  std::string name;
  double tf32_tflops = 0, bf16_tflops = 0, fp32_tflops = 0;  // fp16 has the rate of bf16
  double memory_gbps = 0, memory_gb = 0;
  int multiprocessors = 0;
  double cache_mb = 0;  // level 2
  std::string link;     // that it usually has to its peers: a name of the planner's catalogue
  std::string source;   // of the figures
};

/// Reads a kind from a TOML file; data/gpu-a100-40gb.toml is an example. Error{usage} that names file, line and key
/// when the file cannot be read, a figure is missing or implausible, or a key is unknown. Thread-safe.
AMDAHL_API GpuKind load_gpu_kind(const std::string& path);

}  // namespace amdahl
