// Shared by the charts of a study: grouping of cells into charts, and their labels.
#pragma once

#include <string>
#include <vector>

#include "amdahl/summary.h"

namespace amdahl {

/// Cells that may be in one chart: batches, device counts and configurations may differ, the work may not.
struct StudyGroup {
  std::string model;
  int64_t num_parameters = 0;
  std::string scaling;
  std::string math;
  std::string data;
  auto operator<=>(const StudyGroup&) const = default;
};

StudyGroup group_of(const CellKey& key);
/// Sorted groups that have at least one cell with a result.
std::vector<StudyGroup> groups_of(const StudySummary& summary);
/// "large, 2,021,379 parameters, strong scaling, tf32".
std::string group_text(const StudyGroup& group);
/// A heading: the model, and the other fields only if the groups differ in them: "large (2.02M parameters), bf16".
std::string group_title(const StudyGroup& group, const std::vector<StudyGroup>& all);
/// "large-2021379-strong-tf32-synthetic" with only [a-z0-9-]: part of a chart's id.
std::string group_slug(const StudyGroup& group);

/// Names the configurations of a group by the fields in which they differ.
class ConfigurationNames {
 public:
  ConfigurationNames(const StudySummary& summary, const StudyGroup& group);
  /// "" when all cells of several devices have the same configuration, else "zero1", "ddp, graph, 4 micro-batches".
  std::string of(const CellKey& key) const;
  /// "64", or "64, zero1". In weak scaling, the batch per device.
  std::string series(const CellKey& key) const;
  /// "batch 64 x 2 devices, zero1".
  std::string cell(const CellKey& key) const;

 private:
  bool strategy_ = false, launch_ = false, optimizer_ = false;
  std::vector<const PlanField*> plan_{};  // fields that differ
};

/// The batch that a comparison keeps fixed: the global batch, or in weak scaling the batch per device.
int64_t fixed_batch(const CellKey& key);

}  // namespace amdahl
