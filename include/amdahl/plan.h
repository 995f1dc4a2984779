// ParallelPlan: how a model is spread over devices.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

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

/// How a step divides its work and when it communicates. `plan_fields()` has a row for each member: a new one needs no
/// more than its line here, its row there, and the code that acts on it.
struct PlanOptions {
  int64_t accumulate = 1;           // micro-batches per optimizer step
  bool overlap = true;              // all-reduce while backward goes on
  int64_t bucket_bytes = 25 << 20;  // all-reduce bucket capacity
  int64_t peer_blocks = 0;          // zero1 on CUDA: thread blocks of an update across GPUs beside backward; 0: chosen

  auto operator<=>(const PlanOptions&) const = default;
};

/// What the program knows of a member of PlanOptions: its name in JSON, Records, identities of runs and errors, and the
/// word by which a command line sets it.
struct PlanField {
  std::string_view name;  // "bucket_bytes"
  std::string_view word;  // "bucket-mb"; of what is on by default the word that turns it off
  std::string_view help;
  std::variant<int64_t PlanOptions::*, bool PlanOptions::*> member;
  int64_t least = 0, most = 0;   // of a number
  int64_t option_unit = 1;       // of the word's value in terms of the member: 1 MiB of bucket-mb
  std::string_view unit_name{};  // of the value: "MiB"
  std::string_view example{};    // of such values
  bool is_axis = true;           // runs that differ in it are no samples of one cell
  bool of_several = true;        // says nothing of a plan of one device
  std::string (*words)(const PlanOptions& options) = nullptr;  // in legends, where plans differ in it
};
AMDAHL_API const std::vector<PlanField>& plan_fields();

/// "4", "yes": of identities of runs.
AMDAHL_API std::string text_of(const PlanField& field, const PlanOptions& options);
/// Error{usage} for the first number outside of its limits.
AMDAHL_API void check_plan_options(const PlanOptions& options);

/// Devices along each axis of parallelism: data (dp), tensor (tp) and pipeline (pp).
struct Mesh {
  int dp = 1, tp = 1, pp = 1;
  int size() const { return dp * tp * pp; }
  auto operator<=>(const Mesh&) const = default;
};

/// How one training step runs on the devices of a mesh. `strategy`, a row of the strategy table, is along its data
/// axis.
struct ParallelPlan : PlanOptions {
  std::string strategy = "single";
  Mesh mesh;
  int64_t global_batch = 0;  // rows per optimizer step over all devices

  int num_devices() const { return mesh.size(); }
  /// Rows of one device in one micro-batch (`replicated` and `single`: all rows).
  int64_t local_rows() const;
};

}  // namespace amdahl
