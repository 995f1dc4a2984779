// What a sensor record is set against: the same work on one device, or in sequence; and the words that name it.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// Against `base`, by throughput: under strong scaling the ratio of times.
struct SensorGain {
  const Record* base = nullptr;  // the record itself where it is its own
  double speedup = 1;
  std::optional<Interval> ci;
  double efficiency = 1;  // speedup over devices
};
/// Nothing for a record without times, or whose base was not measured.
std::optional<SensorGain> sensor_gain(const std::vector<Record>& records, const Record& record);

/// Of modes in which devices do different things: task, pipeline, hetero.
bool is_divided_work(const Record& record);
/// A task among others, not all of them.
bool is_one_task(const Record& record);

/// Items of one device's worth under weak scaling, of all under strong.
int64_t base_items(const Record& record);
/// "2 devices", or where one was limited their names: "1 x NVIDIA H200 + 1 x NVIDIA H200, 32 of 132 SMs, emulated".
std::string sharing_devices(const Record& record);
/// How divided work differs from the same work divided otherwise: policy, schedule, or "on 2".
std::string sensor_way(const Record& record);
/// "mean deterministic"; empty for operations without voxels.
std::string voxel_option(const Record& record);
/// The same, "-" instead of nothing.
std::string voxel_text(const Record& record);
/// What the ways to divide the same work share: a line, and the workload on a second one.
std::string format_divided_work(const Record& record);

/// The parts of these words, each at its place: records of one run differ in few of them.
using DividedWorkParts = std::array<std::string, 9>;
DividedWorkParts divided_work_parts(const Record& record);
/// Places of the parts that are separate lines of the words: the workload, and the voxel mode behind it.
inline constexpr size_t kWorkloadPart = 7, kVoxelPart = 8;

}  // namespace amdahl
