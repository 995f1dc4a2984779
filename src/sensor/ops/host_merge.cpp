#include "sensor/ops/host_merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "sensor/ops/voxel_values.h"

namespace amdahl {
namespace {

VoxelizeProblem partial(const VoxelizeProblem& whole) {
  VoxelizeProblem part = whole;
  part.partial = true;
  return part;
}

/// Number of elements that are merged independently: voxels of a mean, words of a mask, otherwise values.
int64_t num_elements(const VoxelizeProblem& problem) {
  switch (problem.options.mode) {
    case VoxelMode::bitmask:
      return num_mask_words(problem.grid);
    case VoxelMode::max:
      return num_voxels(problem.grid) * problem.num_features;
    case VoxelMode::count:
    case VoxelMode::occupancy:
    case VoxelMode::mean:
      break;
  }
  return num_voxels(problem.grid);
}

}  // namespace

HostGrid::HostGrid(const VoxelizeProblem& like, int num_parts)
    : like_(like),
      parts_(static_cast<size_t>(num_parts), std::vector<char>(voxelize_output_bytes(partial(like)))),
      counts_(static_cast<size_t>(num_parts),
              std::vector<int32_t>(is_mean(like) ? static_cast<size_t>(num_voxels(like.grid)) : 0)),
      grid_(voxelize_output_bytes(like)) {}

void HostGrid::merge(int index, int num_slices, float scale) {
  const int64_t elements = num_elements(like_);
  const int64_t begin = elements * index / num_slices, end = elements * (index + 1) / num_slices;
  const auto fold = [&](auto* out, const auto& combine) {
    using T = std::remove_pointer_t<decltype(out)>;
    std::copy(values<T>(0) + begin, values<T>(0) + end, out + begin);
    for (size_t part = 1; part < parts_.size(); ++part)
      for (int64_t i = begin; i < end; ++i) out[i] = combine(out[i], values<T>(part)[i]);
  };
  switch (like_.options.mode) {
    case VoxelMode::count:
      return fold(reinterpret_cast<int32_t*>(grid_.data()), [](int32_t a, int32_t b) { return a + b; });
    case VoxelMode::occupancy:
      return fold(reinterpret_cast<int32_t*>(grid_.data()), [](int32_t a, int32_t b) { return a | b; });
    case VoxelMode::bitmask:
      return fold(reinterpret_cast<uint32_t*>(grid_.data()), [](uint32_t a, uint32_t b) { return a | b; });
    case VoxelMode::mean:
      return merge_sums(begin, end, scale);
    case VoxelMode::max:
      break;
  }
  auto* most = reinterpret_cast<float*>(grid_.data());
  fold(most, [](float a, float b) { return larger(a, b); });
  std::transform(most + begin, most + end, most + begin, final_max);  // as SensorOps::finish
}

void HostGrid::merge_sums(int64_t begin, int64_t end, float scale) {
  const int64_t width = like_.num_features;
  auto* grid = reinterpret_cast<float*>(grid_.data());
  for (int64_t voxel = begin; voxel < end; ++voxel) {
    int32_t count = 0;
    for (const auto& counts : counts_) count += counts[static_cast<size_t>(voxel)];
    for (int64_t i = voxel * width; i < (voxel + 1) * width; ++i) {
      int64_t fixed = 0;
      float sum = 0;
      for (size_t part = 0; part < parts_.size(); ++part)
        if (is_fixed_point(like_))
          fixed += values<int64_t>(part)[i];
        else
          sum += values<float>(part)[i];
      if (count == 0)
        grid[i] = 0;
      else
        grid[i] =
            is_fixed_point(like_) ? fixed_point_mean(fixed, count, double{scale}) : sum / static_cast<float>(count);
    }
  }
}

HostMerge::HostMerge(Device& device, SensorOps& ops, Communicator& communicator, const VoxelizeProblem& like,
                     int64_t num_points_of_all, HostGrid& grid)
    : device_(device), ops_(ops), communicator_(communicator), grid_(grid), num_points_of_all_(num_points_of_all) {
  const auto allocate = [&device](size_t bytes) { return bytes > 0 ? device.allocate(bytes) : nullptr; };
  output_ = allocate(grid.part_bytes());
  counts_ = allocate(grid.counts_bytes());
  scale_ = allocate(is_fixed_point(like) ? sizeof(float) : 0);
  make_room(like);
}

/// Scratch memory may not be monotonic in the number of points, so every problem is checked.
void HostMerge::make_room(const VoxelizeProblem& problem) {
  const size_t needed = ops_.voxelize_scratch_bytes(part_of(problem));
  if (needed <= (scratch_ ? scratch_->bytes() : 0)) return;
  scratch_.reset();
  scratch_ = device_.allocate(needed);
}

VoxelizeProblem HostMerge::part_of(const VoxelizeProblem& problem) const {
  VoxelizeProblem part = partial(problem);
  part.output = output_->data();
  part.counts = counts_ ? counts_->as<int32_t>() : nullptr;
  part.scratch = scratch_ ? scratch_->data() : nullptr;
  part.scale = scale_ ? scale_->as<float>() : nullptr;
  return part;
}

void HostMerge::prepare(Stream& stream, const VoxelizeProblem& problem, Deadline deadline) {
  make_room(problem);
  if (!scale_) return;
  ops_.fixed_point_scale(stream, part_of(problem), num_points_of_all_, scale_->as<float>());
  device_.copy_out(stream, &agreed_scale_, scale_->data(), sizeof(agreed_scale_));
  stream.synchronize(deadline);
  // All parts use the minimum of their scales, which keeps every sum within 64 bits.
  for (const std::string& other : communicator_.exchange(fmt::format("{:a}", agreed_scale_), deadline))
    agreed_scale_ = std::min(agreed_scale_, std::strtof(other.c_str(), nullptr));
  device_.copy_in(stream, scale_->data(), &agreed_scale_, sizeof(agreed_scale_));
}

void HostMerge::compute(Stream& stream, const VoxelizeProblem& problem) {
  const VoxelizeProblem part = part_of(problem);
  ops_.voxelize(stream, part);
  device_.copy_out(stream, grid_.part(communicator_.rank()), part.output, grid_.part_bytes());
  if (counts_) device_.copy_out(stream, grid_.counts(communicator_.rank()), part.counts, grid_.counts_bytes());
}

}  // namespace amdahl
