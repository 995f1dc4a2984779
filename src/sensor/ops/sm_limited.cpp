#include "sensor/ops/sm_limited.h"

#include <fmt/format.h>

#include <cmath>

#include "amdahl/error.h"
#include "sensor/ops/shard.h"

namespace amdahl {
namespace {

/// Repeats the operations whose time depends on the items; all others run once.
class RepeatingOps final : public SensorOps {
 public:
  RepeatingOps(std::unique_ptr<SensorOps> ops, double times) : ops_(std::move(ops)), times_(times) {}

  void fuse(Stream& stream, const FuseProblem& problem) override {
    repeat(problem.batch, [&](ItemRange rows) { ops_->fuse(stream, slice_of(problem, rows)); });
  }
  void voxelize(Stream& stream, const VoxelizeProblem& problem) override {
    repeat(problem.num_points, [&](ItemRange points) { ops_->voxelize(stream, slice_of(problem, points)); });
  }

  void check_times(Stream& stream, const std::vector<TimesRows>& rows, TimesFault* faults) override {
    ops_->check_times(stream, rows, faults);
  }
  size_t voxelize_scratch_bytes(const VoxelizeProblem& problem) const override {
    return ops_->voxelize_scratch_bytes(problem);
  }
  void fixed_point_scale(Stream& stream, const VoxelizeProblem& problem, int64_t num_points_of_all,
                         float* scale) override {
    ops_->fixed_point_scale(stream, problem, num_points_of_all, scale);
  }
  void finish(Stream& stream, const VoxelizeProblem& merged) override { ops_->finish(stream, merged); }
  void add_byte_counts(Stream& stream, const ByteCounts& layout, void* buffer, int32_t* grid) override {
    ops_->add_byte_counts(stream, layout, buffer, grid);
  }
  void merge_masks(Stream& stream, uint32_t* mask, const uint32_t* other, int64_t num_words) override {
    ops_->merge_masks(stream, mask, other, num_words);
  }
  void expand_mask(Stream& stream, const uint32_t* mask, int32_t* grid, int64_t voxels) override {
    ops_->expand_mask(stream, mask, grid, voxels);
  }

 private:
  /// The complete call is the last one, because a call with a part of the points writes a wrong grid.
  template <class Work>
  void repeat(int64_t num_items, const Work& work) const {
    double left = times_ - 1;
    for (; left >= 1; left -= 1) work({0, num_items});
    const auto items = static_cast<int64_t>(std::llround(left * static_cast<double>(num_items)));
    if (items > 0) work({0, items});
    work({0, num_items});
  }

  std::unique_ptr<SensorOps> ops_;
  double times_;
};

}  // namespace

std::unique_ptr<SensorOps> limit_speed(const Device& device, std::unique_ptr<SensorOps> ops, double fraction) {
  if (!(fraction > 0 && fraction <= 1))
    throw Error(Cause::usage, fmt::format("a device is limited to {} of its speed", fraction),
                "a number above 0, at most 1");
  if (fraction == 1 || device.spec().sm_count > 0) return ops;
  return std::make_unique<RepeatingOps>(std::move(ops), 1 / fraction);
}

}  // namespace amdahl
