// Bit masks merged through the memory of all GPUs of this machine: many merges one behind the other, with nobody
// waiting in between, against an OR on the host.
#include "several_gpus.h"

namespace amdahl {
namespace {

constexpr uint32_t kPoison = 0x5a5a5a5a;

class MaskPeersTest : public SeveralGpusTest {
 protected:
  // Kernels of all ranks must have ended before anything of theirs goes.
  void TearDown() override {
    peers_.clear(), masks_.clear(), grids_.clear(), merged_.clear();
    SeveralGpusTest::TearDown();
  }

  static int64_t words_of(int64_t voxels) { return (voxels + 127) / 128 * 4; }  // whole vectors

  void join(int64_t voxels, int merges, double timeout_seconds = 20) {
    const auto memory = shared_zeros(ops_[0]->mask_peer_bytes(voxels, static_cast<int>(world())), timeout_seconds);
    peers_.clear(), masks_.clear(), grids_.clear(), merged_.clear();
    for (size_t r = 0; r < world(); ++r) {
      peers_.push_back(ops_[r]->join_masks(memory[r], voxels));
      masks_.emplace_back(), grids_.emplace_back(), merged_.emplace_back();
      for (int m = 0; m < merges; ++m) {
        masks_[r].push_back(array<uint32_t>(r, host_mask(voxels, static_cast<int>(r), m)));
        grids_[r].push_back(array<int32_t>(r, std::vector<int32_t>(static_cast<size_t>(voxels + 1), 7)));
        merged_[r].push_back(array<uint32_t>(r, std::vector<uint32_t>(static_cast<size_t>(words_of(voxels)), kPoison)));
      }
    }
  }

  /// One bit in 16 of each rank, another choice each merge.
  static std::vector<uint32_t> host_mask(int64_t voxels, int rank, int merge) {
    std::mt19937 random(static_cast<uint32_t>(rank * 1000 + merge));
    std::vector<uint32_t> mask(static_cast<size_t>(words_of(voxels)));
    for (int64_t i = 0; i < voxels; ++i)
      if (random() % 16 == 0) mask[static_cast<size_t>(i / 32)] |= 1u << i % 32;
    return mask;
  }
  void enqueue(int merge) {
    const auto m = static_cast<size_t>(merge);
    for (size_t r = 0; r < world(); ++r)  // every third merge as a grid alone, every third as a mask alone
      peers_[r]->merge(*streams_[r], masks_[r][m]->data(), merge % 3 == 1 ? nullptr : grids_[r][m]->data(),
                       merge % 3 == 2 ? nullptr : merged_[r][m]->data());
  }
  void expect_merged(int64_t voxels, int merge) {
    const auto m = static_cast<size_t>(merge);
    std::vector<uint32_t> wanted(static_cast<size_t>(words_of(voxels)));
    for (size_t r = 0; r < world(); ++r) {
      const std::vector<uint32_t> part = host_mask(voxels, static_cast<int>(r), merge);
      for (size_t i = 0; i < part.size(); ++i) wanted[i] |= part[i];
    }
    std::vector<int32_t> grid(static_cast<size_t>(voxels + 1), 7);
    if (merge % 3 != 1)
      for (int64_t i = 0; i < voxels; ++i)
        grid[static_cast<size_t>(i)] = wanted[static_cast<size_t>(i / 32)] >> i % 32 & 1;
    const auto words = static_cast<size_t>((voxels + 31) / 32);
    for (size_t i = words; i < wanted.size(); ++i) wanted[i] = kPoison;
    if (merge % 3 == 2) std::fill(wanted.begin(), wanted.end(), kPoison);
    for (size_t r = 0; r < world(); ++r) {
      EXPECT_EQ(grids_[r][m]->get(), grid) << "rank " << r << ", merge " << merge;
      EXPECT_EQ(merged_[r][m]->get(), wanted) << "rank " << r << ", merge " << merge;
    }
  }

  std::vector<std::unique_ptr<MaskPeers>> peers_;
  std::vector<std::vector<std::unique_ptr<GpuArray<uint32_t>>>> masks_, merged_;
  std::vector<std::vector<std::unique_ptr<GpuArray<int32_t>>>> grids_;
};

TEST_F(MaskPeersTest, ManyMergesOneBehindTheOther) {
  constexpr int kMerges = 7;
  for (const int64_t voxels : {int64_t{1}, int64_t{31}, int64_t{8193}, int64_t{128} * 128 * 128, int64_t{9'000'011}}) {
    SCOPED_TRACE(voxels);
    join(voxels, kMerges);
    for (int m = 0; m < kMerges; ++m) enqueue(m);
    synchronize();
    for (int m = 0; m < kMerges; ++m) expect_merged(voxels, m);
    if (HasFailure()) return;
  }
}

/// An odd number of merges in a graph: replays take the inboxes in turn all the same.
TEST_F(MaskPeersTest, ReplayedGraphs) {
  constexpr int kMerges = 3;
  const int64_t voxels = 100'000;
  join(voxels, kMerges);
  const auto graphs = graphs_of([&](size_t r) {
    for (size_t m = 0; m < kMerges; ++m)
      peers_[r]->merge(*streams_[r], masks_[r][m]->data(), m == 1 ? nullptr : grids_[r][m]->data(),
                       m == 2 ? nullptr : merged_[r][m]->data());
  });
  for (int replay = 0; replay < 5; ++replay)
    for (size_t r = 0; r < world(); ++r) graphs[r]->launch(*streams_[r]);
  synchronize();
  for (int m = 0; m < kMerges; ++m) expect_merged(voxels, m);
}

TEST_F(MaskPeersTest, ALateRankIsNamed) {
  join(100'000, 1, 1);
  for (size_t r = 0; r + 1 < world(); ++r)
    peers_[r]->merge(*streams_[r], masks_[r][0]->data(), grids_[r][0]->data(), nullptr);
  expect_a_missing_rank();
}

}  // namespace
}  // namespace amdahl
