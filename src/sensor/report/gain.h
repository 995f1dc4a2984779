// Baseline of a sensor record: the same work on one device, or in sequence; and the texts that name it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// Gain over `base` in throughput; under strong scaling the ratio of times.
struct SensorGain {
  const Record* base = nullptr;  // the record itself when it is its own baseline
  double speedup = 1;
  std::optional<Interval> ci;
  double efficiency = 1;  // speedup / devices
};
/// The time of a call or round in us; 0 without samples.
Estimate sensor_time(const Record& record);
/// Its work / its time, in the unit of the series, which is throughput or bandwidth; 0 without samples.
Estimate sensor_rate(const Record& record, const char* series = "throughput");

/// nullopt for a record without times or whose baseline was not measured.
std::optional<SensorGain> sensor_gain(const std::vector<Record>& records, const Record& record);

/// Whether the record's mode divides different work among devices: task, pipeline, hetero.
bool is_divided_work(const Record& record);
/// Whether the record is one task of several, not all of them together.
bool is_one_task(const Record& record);

/// Items per device under weak scaling, of all devices under strong scaling.
int64_t base_items(const Record& record);
/// "2 devices", or, if one is SM-limited, their names: "1 x NVIDIA H200 + 1 x NVIDIA H200, 32 of 132 SMs, emulated".
std::string sharing_devices(const Record& record);
/// How the division of work differs from other divisions of the same work: policy, schedule, or "on 2".
std::string sensor_method(const Record& record);
/// "mean deterministic"; empty for operations without voxels.
std::string voxel_option(const Record& record);
/// Like voxel_option, with "-" instead of empty.
std::string voxel_text(const Record& record);
/// What all divisions of the same work share: one line, and the workload on a second one.
std::string format_divided_work(const Record& record);

/// The fields of that text, each at a fixed index; records of one run differ in few of them.
using DividedWorkParts = std::array<std::string, 9>;
DividedWorkParts divided_work_parts(const Record& record);
/// Indices of the fields that are on a separate line: the workload, followed by the voxel mode.
inline constexpr size_t kWorkloadPart = 7, kVoxelPart = 8;

}  // namespace amdahl
