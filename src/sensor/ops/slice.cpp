#include "sensor/ops/shard.h"

namespace amdahl {
namespace {

const void* skip(const void* data, int64_t count, DType type) {
  return data ? static_cast<const char*>(data) + count * static_cast<int64_t>(size_of(type)) : nullptr;
}

}  // namespace

FuseProblem slice_of(const FuseProblem& whole, ItemRange rows) {
  FuseProblem part = whole;
  int64_t width = 0;
  for (FuseStream& stream : part.streams) {
    stream.data = skip(stream.data, rows.begin * stream.length * stream.width, whole.type);
    stream.times += rows.begin * stream.length;
    width += stream.width;
  }
  part.targets += rows.begin * whole.num_targets;
  part.output = static_cast<char*>(whole.output) +
                rows.begin * whole.num_targets * width * static_cast<int64_t>(size_of(whole.type));
  part.batch = rows.count();
  return part;
}

VoxelizeProblem slice_of(const VoxelizeProblem& whole, ItemRange points) {
  VoxelizeProblem part = whole;
  part.points += points.begin * 3;
  part.features = skip(whole.features, points.begin * whole.num_features, whole.feature_type);
  part.num_points = points.count();
  return part;
}

}  // namespace amdahl
