// Plans the cells that a study measures from its configuration.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "amdahl/study.h"
#include "measure/study/runner.h"

namespace amdahl {

struct StudyGrid {
  std::vector<std::vector<StudyCellSpec>> groups;  // one per batch size, its cells interleaved
  std::string decision;                            // decision of the selector in mode auto, one line per batch size
  std::string note;                                // the extra cells of a study on one device; may be empty
};

/// Sets `config.mode` when the user did not: compare if there are several devices. Error{check_failed} when the user
/// asked for several devices and only one exists.
void choose_mode(StudyConfig& config);

/// The grid of a study whose device counts and mode are set. Unless `config.variants` is "none", a study on one device
/// also measures, with at most kExtraRuns runs each, the alternatives on that device: the other launch mode, the other
/// math modes, and half of each batch.
StudyGrid plan_grid(const StudyConfig& config, const ModelSpec& model);

/// Launch and math modes of a backend.
struct ComputeModes {
  std::vector<LaunchMode> launches;
  std::vector<MathMode> maths;
};
/// Alternatives of a one-device cell: the other launch mode with the same math, then the other math modes. The latter
/// are launched as a graph if the backend has graphs, since math mode hardly matters while the step is launch-bound.
std::vector<StudyCellSpec> other_methods(const StudyCellSpec& cell, const ComputeModes& modes);

/// Removes the extra cells of every group whose cells together exceed a device's `memory_bytes` (0: unknown). Returns
/// the batch sizes of these groups.
std::vector<int64_t> drop_extras_that_do_not_fit(std::vector<std::vector<StudyCellSpec>>& groups, int64_t memory_bytes,
                                                 const std::function<int64_t(const StudyCellSpec&)>& bytes_of);

/// "16/1 graph fp32, 8/1 eager fp32": the extra cells of a grid; empty if there are none.
std::string extras_text(const std::vector<std::vector<StudyCellSpec>>& groups);

}  // namespace amdahl
