// Counts merged through the memory of all GPUs of this machine: many merges one behind the other, with nobody waiting
// in between, against counts on the host.
#include <cstring>

#include "several_gpus.h"

namespace amdahl {
namespace {

constexpr int kMerges = 5;

class CountPeersTest : public SeveralGpusTest {
 protected:
  // Kernels of all ranks must have ended before anything of theirs goes.
  void TearDown() override {
    peers_.clear(), points_.clear(), grids_.clear(), scratch_.clear(), stats_.clear();
    SeveralGpusTest::TearDown();
  }

  /// A cloud of each rank for each merge, of which one voxel in `overfull` has far more points than a byte holds; the
  /// last rank has none in every other one.
  void join(const VoxelGrid& grid, int64_t points_of_rank, bool overfull, double timeout_seconds = 20) {
    grid_ = grid, num_points_ = points_of_rank;
    peers_.clear(), points_.clear(), grids_.clear(), scratch_.clear(), clouds_.clear(), stats_.clear();
    ByteCounts layout = ByteCounts::of(num_voxels(grid), static_cast<int>(world()), points_of_rank);
    layout.divided = true;
    for (size_t r = 0; r < world(); ++r) layout.divided = layout.divided && ops_[r]->divides_counts(num_voxels(grid));
    const auto memory = shared_zeros(ops_[0]->count_peer_bytes(layout), timeout_seconds);
    for (size_t r = 0; r < world(); ++r) {
      peers_.push_back(ops_[r]->join_counts(memory[r], layout));
      points_.emplace_back(), grids_.emplace_back(), clouds_.emplace_back();
      for (int m = 0; m < kMerges; ++m) {
        clouds_[r].push_back(
            cloud_of(static_cast<uint32_t>(r * 100) + static_cast<uint32_t>(m), overfull && m % 2 == 0));
        if (r + 1 == world() && m % 2 == 1) clouds_[r].back().clear();
        const bool none = clouds_[r].back().empty();
        points_[r].push_back(array<float>(r, none ? std::vector<float>(1) : clouds_[r].back()));
        grids_[r].push_back(array<int32_t>(r, std::vector<int32_t>(static_cast<size_t>(num_voxels(grid) + 1), 7)));
      }
      stats_.push_back(array<VoxelizeCounts>(r, std::vector<VoxelizeCounts>(kMerges)));
      scratch_.push_back(devices_[r]->allocate(std::max<size_t>(ops_[r]->voxelize_scratch_bytes(part(r, 0)), 1)));
    }
  }
  std::vector<float> cloud_of(uint32_t seed, bool overfull) const {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> unit(-0.05f, 1.05f);
    std::vector<float> cloud;
    for (int64_t i = 0; i < num_points_; ++i)
      for (size_t axis = 0; axis < 3; ++axis) {
        const bool met = overfull && i % 2 == 0;
        cloud.push_back(met ? 0.5f : unit(random) * static_cast<float>(grid_.size[axis]));
      }
    return cloud;
  }
  VoxelizeProblem part(size_t rank, int merge) const {
    VoxelizeProblem problem;
    problem.grid = grid_;
    problem.options.mode = VoxelMode::count;
    problem.points = points_[rank][static_cast<size_t>(merge)]->data();
    problem.num_points = static_cast<int64_t>(clouds_[rank][static_cast<size_t>(merge)].size() / 3);
    problem.partial = true;
    problem.stats = stats_[rank]->data() + merge;
    if (rank < scratch_.size()) problem.scratch = scratch_[rank]->data();
    peers_[rank]->aim(problem);
    return problem;
  }
  void enqueue(size_t rank, int merge) {
    ops_[rank]->voxelize(*streams_[rank], part(rank, merge));
    peers_[rank]->merge(*streams_[rank], grids_[rank][static_cast<size_t>(merge)]->data());
  }
  void expect_merged(int merge) {
    std::vector<int32_t> wanted(static_cast<size_t>(num_voxels(grid_) + 1));
    for (size_t r = 0; r < world(); ++r) {
      const std::vector<float>& cloud = clouds_[r][static_cast<size_t>(merge)];
      int64_t outside = 0;
      for (size_t i = 0; i < cloud.size(); i += 3) {
        int64_t voxel = 0;
        bool inside = true;
        for (size_t axis = 0; axis < 3; ++axis) {
          const auto at = static_cast<int64_t>(std::floor(cloud[i + axis]));
          inside = inside && at >= 0 && at < grid_.size[axis];
          voxel = voxel * grid_.size[axis] + at;
        }
        if (inside) ++wanted[static_cast<size_t>(voxel)];
        outside += inside ? 0 : 1;
      }
      EXPECT_EQ(stats_[r]->get()[static_cast<size_t>(merge)].num_outside, outside) << "rank " << r;
    }
    wanted.back() = 7;
    for (size_t r = 0; r < world(); ++r)
      EXPECT_EQ(grids_[r][static_cast<size_t>(merge)]->get(), wanted) << "rank " << r << ", merge " << merge;
  }

  VoxelGrid grid_;
  int64_t num_points_ = 0;
  std::vector<std::vector<std::vector<float>>> clouds_;
  std::vector<std::unique_ptr<CountPeers>> peers_;
  std::vector<std::vector<std::unique_ptr<GpuArray<float>>>> points_;
  std::vector<std::vector<std::unique_ptr<GpuArray<int32_t>>>> grids_;
  std::vector<std::unique_ptr<GpuArray<VoxelizeCounts>>> stats_;
  std::vector<std::unique_ptr<Buffer>> scratch_;
};

/// Grids of which a rank adds up a part, and of which it counts some bins.
constexpr std::array<int64_t, 3> kAddedUp{60, 50, 40}, kDivided{200, 210, 220};

TEST_F(CountPeersTest, ManyMergesOneBehindTheOther) {
  struct Case {
    std::array<int64_t, 3> size;
    int64_t points;
    bool overfull;
  };
  for (const Case& c : std::vector<Case>{{{1, 1, 1}, 3, false},
                                         {{1, 1, 1}, 3000, true},
                                         {{3, 5, 7}, 2000, true},
                                         {{16, 16, 65}, 10'000, false},
                                         {{70, 31, 129}, 100'000, true},
                                         {{128, 128, 128}, 300'000, true},
                                         {kDivided, 700'001, true},
                                         {kDivided, 3, false},
                                         {{256, 256, 256}, 3'000'000, true}}) {
    SCOPED_TRACE(c.size[0] * c.size[1] * c.size[2]);
    join({{0, 0, 0}, 1, c.size}, c.points, c.overfull);
    for (int m = 0; m < kMerges; ++m)
      for (size_t r = 0; r < world(); ++r) enqueue(r, m);
    ASSERT_NO_THROW(synchronize());
    for (int m = 0; m < kMerges; ++m) expect_merged(m);
    if (HasFailure()) return;
  }
}

/// An odd number of merges in a graph: replays take the lists in turn all the same.
TEST_F(CountPeersTest, ReplayedGraphs) {
  for (const auto& size : {kAddedUp, kDivided}) {
    join({{0, 0, 0}, 1, size}, 50'000, true);
    const auto graphs = graphs_of([&](size_t r) {
      for (int m = 0; m < 3; ++m) enqueue(r, m);
    });
    for (int replay = 0; replay < 6; ++replay)
      for (size_t r = 0; r < world(); ++r) graphs[r]->launch(*streams_[r]);
    synchronize();
    for (int m = 0; m < 3; ++m) expect_merged(m);
  }
}

TEST_F(CountPeersTest, ALateRankIsNamed) {
  join({{0, 0, 0}, 1, kAddedUp}, 1000, false, 1);
  for (size_t r = 0; r + 1 < world(); ++r) enqueue(r, 0);
  expect_a_missing_rank();
}

TEST_F(CountPeersTest, ARankThatDoesNotSortIsNamed) {
  join({{0, 0, 0}, 1, kDivided}, 1000, false, 1);
  for (size_t r = 0; r + 1 < world(); ++r) enqueue(r, 0);
  expect_a_missing_rank();
}

}  // namespace
}  // namespace amdahl
