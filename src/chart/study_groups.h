// What the charts of a study share: which cells belong into one picture, and their labels.
#pragma once

#include <string>
#include <vector>

#include "amdahl/summary.h"

namespace amdahl {

/// Cells that one picture may show: batches, device counts and configurations differ, the work does not.
struct StudyGroup {
  std::string model;
  int64_t num_parameters = 0;
  std::string scaling;
  std::string math;
  std::string data;
  auto operator<=>(const StudyGroup&) const = default;
};

StudyGroup group_of(const CellKey& key);
/// Groups with a cell that has a result, in order.
std::vector<StudyGroup> groups_of(const StudySummary& summary);
/// "large, 2,021,379 parameters, strong scaling, tf32".
std::string group_text(const StudyGroup& group);
/// A heading: the model, and of the rest what tells groups apart: "large (2.02M parameters), bf16".
std::string group_title(const StudyGroup& group, const std::vector<StudyGroup>& all);
/// "large-2021379-strong-tf32-synthetic" with only [a-z0-9-]: part of a chart's name.
std::string group_slug(const StudyGroup& group);

/// Names configurations within a group by what differs there, and by no more.
class ConfigurationNames {
 public:
  ConfigurationNames(const StudySummary& summary, const StudyGroup& group);
  /// "" when all cells of several devices have the same configuration, else "zero1", "ddp, graph, 4 micro-batches".
  std::string of(const CellKey& key) const;
  /// "64", or "64, zero1". In weak scaling the batch of a device.
  std::string series(const CellKey& key) const;
  /// "batch 64 x 2 devices, zero1".
  std::string cell(const CellKey& key) const;

 private:
  bool strategy_ = false, launch_ = false, optimizer_ = false;
  std::vector<const PlanField*> plan_{};  // that differ
};

/// The batch that the comparison of a cell keeps fixed: the global one, in weak scaling that of a device.
int64_t fixed_batch(const CellKey& key);

}  // namespace amdahl
