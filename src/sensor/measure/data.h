// Inputs of the sensor benchmark: every item (batch row or point) is a function of the seed and its index alone, or of
// a file and its index, so that all devices together hold the same data whatever the split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/sensor.h"
#include "sensor/ops/shard.h"

namespace amdahl {

struct PointCloud;
struct Trajectories;

enum class SensorOperation { fuse, voxelize, resample };
enum class PointDistribution { uniform, corner, readme, clusters, scan };
std::string_view to_string(SensorOperation operation);
std::string_view to_string(PointDistribution distribution);

/// What one call computes, over all devices together.
struct SensorJob {
  SensorOperation operation = SensorOperation::voxelize;
  DType type = DType::f32;  // of streams and features
  int64_t num_items = 0;    // batch rows or points
  uint64_t seed = 42;

  std::vector<StreamShape> streams;  // fuse and resample
  int64_t num_targets = 0;

  VoxelGrid grid;  // voxelize
  VoxelizeOptions options;
  int64_t num_features = 0;  // 0 where the mode needs none
  PointDistribution distribution = PointDistribution::uniform;

  // Data of the caller's, or a file's, instead of generated ones.
  std::shared_ptr<const PointCloud> cloud;                  // at least num_items points
  std::shared_ptr<const std::vector<Trajectories>> tracks;  // of `streams`, alike in batch
  std::string input;                                        // what they are called

  bool voxelizes() const { return operation == SensorOperation::voxelize; }
  /// Sum of the streams' widths.
  int64_t fused_width() const;
};

/// "b4 30x512+100x64+200x12->50", "p500000 128x128x128 f8 clusters".
std::string workload_text(const SensorJob& job);

/// Items [begin, end) on the host, in the layout of the operation's arguments.
struct SensorItems {
  std::vector<float> points;                        // [N, 3]
  std::vector<std::byte> features;                  // [N, F]
  std::vector<std::vector<std::byte>> stream_data;  // [B, S, D] each
  std::vector<std::vector<float>> stream_times;     // [B, S] each; generated ones rise from 0 to 1
  std::vector<float> targets;                       // [B, T]; generated ones are in [0, 1]
};
SensorItems make_items(const SensorJob& job, ItemRange items);

/// Writes a number as an element of that type.
void store_element(std::byte* place, DType type, float value);
/// Element `index` of an array of that type.
float element_at(const void* data, DType type, int64_t index);

}  // namespace amdahl
