#include "amdahl/plan.h"

namespace amdahl {

std::string_view to_string(BackendKind kind) { return kind == BackendKind::cpu ? "cpu" : "cuda"; }
std::string_view to_string(LaunchMode mode) { return mode == LaunchMode::eager ? "eager" : "graph"; }
std::string_view to_string(MathMode mode) {
  switch (mode) {
    case MathMode::tf32:
      return "tf32";
    case MathMode::bf16:
      return "bf16";
    case MathMode::fp32:
      break;
  }
  return "fp32";
}
std::string_view to_string(Scaling scaling) { return scaling == Scaling::strong ? "strong" : "weak"; }

int64_t ParallelPlan::local_rows() const {
  const bool full_batch = strategy == "single" || strategy == "replicated";
  return global_batch / accumulate / (full_batch ? 1 : num_devices);
}

}  // namespace amdahl
