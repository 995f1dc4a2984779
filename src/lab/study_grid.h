// Which cells a study measures, from what was asked for.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "amdahl/amdahl.h"
#include "measure/study/runner.h"

namespace amdahl {

struct StudyGrid {
  std::vector<std::vector<StudyCellSpec>> groups;  // one per batch size, its cells interleaved
  std::string decision;                            // of the selector of mode auto, a line a batch size
  std::string note;                                // what a study on one device measures besides; or empty
};

/// Settles `config.mode`: a mode nobody named compares where there are several devices. Error{check_failed} when
/// several devices were asked for by name and there is one.
void choose_mode(StudyConfig& config);

/// The grid of a study whose device counts and mode are settled. A study on one device also measures, with at most
/// kExtraRuns runs each unless `config.variants` is "none", what that device can do otherwise:
/// the other launch mode, the other math modes, and half of each batch.
StudyGrid plan_grid(const StudyConfig& config, const ModelSpec& model);

/// Launch and math modes of a backend.
struct ComputeModes {
  std::vector<LaunchMode> launches;
  std::vector<MathMode> maths;
};
/// Other ways to run a cell of one device: the other launch mode with the same math, then the other math modes,
/// launched as a graph where the backend has graphs, since math hardly shows while launches bound the step.
std::vector<StudyCellSpec> other_ways(const StudyCellSpec& cell, const ComputeModes& modes);

/// Leaves out the extra cells of every group whose cells do not fit into a device of `memory_bytes` (0: unknown)
/// together. Returns the batch sizes.
std::vector<int64_t> drop_extras_that_do_not_fit(std::vector<std::vector<StudyCellSpec>>& groups, int64_t memory_bytes,
                                                 const std::function<int64_t(const StudyCellSpec&)>& bytes_of);

/// "16/1 graph fp32, 8/1 eager fp32": the extra cells of a grid; empty without one.
std::string extras_text(const std::vector<std::vector<StudyCellSpec>>& groups);

}  // namespace amdahl
