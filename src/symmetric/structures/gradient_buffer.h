// A buffer of versioned gradients: every worker publishes its newest gradient at one rank, which combines them with
// bounded staleness.
#pragma once

#include <algorithm>
#include <vector>

#include "symmetric/structures/versioned_block.h"

namespace amdahl {

/// One rank's access; not thread-safe, one per thread. All zero memory is an empty buffer.
class GradientBuffer {
 public:
  static size_t bytes(int world, size_t floats) { return static_cast<size_t>(world) * stride(floats); }
  /// `offset`: of bytes(world, floats) in every region, of which those of rank `home` are used.
  GradientBuffer(CpuTeam& team, size_t offset, size_t floats, int home)
      : team_(team), offset_(offset), floats_(floats), home_(home), scratch_(floats) {}

  /// Publishes this rank's gradient of `step`, which is above its earlier ones and above 0.
  void publish(const float* gradient, uint64_t step) { block(team_.view.rank).write(gradient, step); }
  /// The newest step that a rank has published.
  uint64_t step_of(int rank) const { return block(rank).version(); }

  /// Waits until every rank in `ranks` has published a step of at least `step` - `staleness`, and writes the mean of
  /// their newest gradients, added in their order, to `mean`. Returns the largest age in steps among them.
  /// Error{rank_hung} with the rank that is too far behind at the deadline.
  uint64_t collect(const std::vector<int>& ranks, uint64_t step, uint64_t staleness, float* mean) {
    std::fill(mean, mean + floats_, 0.0f);
    uint64_t oldest = 0;
    for (const int rank : ranks) {
      const VersionedBlock from = block(rank);
      if (!symmetric_cpu::wait_for(
              team_.view, rank, [&] { return from.version() + staleness >= std::max<uint64_t>(step, staleness + 1); }))
        team_.fail("a gradient that is new enough");
      const uint64_t version = from.read(team_, scratch_.data(), rank);
      oldest = std::max(oldest, step > version ? step - version : 0);
      for (size_t i = 0; i < floats_; ++i) mean[i] += scratch_[i];
    }
    for (size_t i = 0; i < floats_; ++i) mean[i] /= static_cast<float>(ranks.size());
    return oldest;
  }

 private:
  static size_t stride(size_t floats) { return (VersionedBlock::total_bytes(floats * sizeof(float)) + 63) / 64 * 64; }
  VersionedBlock block(int rank) const {
    return {object_of<char>(team_, offset_ + static_cast<size_t>(rank) * stride(floats_), home_),
            floats_ * sizeof(float)};
  }

  CpuTeam& team_;
  const size_t offset_, floats_;
  const int home_;
  std::vector<float> scratch_;
};

}  // namespace amdahl
