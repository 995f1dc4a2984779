// Structures in symmetric memory between kernels of all GPUs of this machine, or of partitions of one: recorded
// histories are linearizable, and no reader sees a part of an update.
#include <cuda_runtime.h>

#include "device/cuda_check.h"
#include "several_gpus.h"
#include "structure_models.h"
#include "symmetric/cuda_team.h"
#include "symmetric/structures/cuda_structures.cuh"

namespace amdahl {
namespace {

using namespace symmetric_cuda;
using test::RecordedOperation;

constexpr int kOperationsPerRound = 6;
constexpr int kStructureRounds = 1500;
constexpr size_t kRingCapacity = 5, kMapStripes = 2;
constexpr size_t kCacheEntries = 2, kCacheWords = 999;
constexpr int kCacheSwaps = 1000;

/// The clock of a history, in rank 0's region, and after it the structure.
constexpr size_t kClockAt = (kTeamFlagBytes + 255) / 256 * 256, kStructureAt = kClockAt + 256;

/// Plain data as the kernels write it.
struct DeviceOperation {
  int kind;
  uint64_t argument, second_argument;
  bool succeeded;
  uint64_t result, invoked, returned;
};

__device__ uint64_t next_random(uint64_t& state) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> 33;
}
/// A time after all accesses of this thread so far and before its later ones.
__device__ uint64_t tick(const TeamView& team) {
  __threadfence_system();
  const uint64_t time = fetch_add(team, reinterpret_cast<uint64_t*>(team.base[team.rank] + kClockAt), 1, 0);
  __threadfence_system();
  return time;
}

/// Thread 0 operates, a barrier ends each round. `execute` returns Outcome and fills the result; `failed` counts
/// abandoned waits.
template <class Make, class Execute>
__device__ void record_history(const TeamView& team, DeviceOperation* operations, uint64_t* failed, const Make& make,
                               const Execute& execute) {
  uint64_t random = static_cast<uint64_t>(team.rank) * 977 + 5;
  for (int round = 0; round < kStructureRounds; ++round) {
    for (int i = 0; threadIdx.x == 0 && i < kOperationsPerRound; ++i) {
      DeviceOperation operation{};
      make(random, operation);
      operation.invoked = tick(team);
      const Outcome outcome = execute(operation);
      operation.returned = tick(team);
      operations[round * kOperationsPerRound + i] = operation;
      if (outcome != Outcome::abandoned) continue;
      *failed += 1;
      set_broken(team);
    }
    if (barrier(team)) continue;
    if (threadIdx.x == 0) *failed += 1;
    return;
  }
}

__global__ void record_queue(const __grid_constant__ TeamView team, DeviceOperation* operations, uint64_t* failed) {
  DeviceRing<uint64_t> ring(team, kStructureAt, kRingCapacity, 1);
  record_history(
      team, operations, failed,
      [](uint64_t& random, DeviceOperation& op) {
        op.kind = next_random(random) % 2 ? test::kPush : test::kPop;
        op.argument = next_random(random) % 1000;
      },
      [&](DeviceOperation& op) {
        const Outcome outcome = op.kind == test::kPush ? ring.try_push(op.argument) : ring.try_pop(&op.result);
        op.succeeded = outcome == Outcome::done;
        return outcome;
      });
}

__global__ void record_map(const __grid_constant__ TeamView team, DeviceOperation* operations, uint64_t* failed) {
  DeviceMap map(team, kStructureAt, kMapStripes);
  record_history(
      team, operations, failed,
      [](uint64_t& random, DeviceOperation& op) {
        op.kind = static_cast<int>(test::kInsert + next_random(random) % 3);
        op.argument = next_random(random) % 6;
        op.second_argument = next_random(random);
      },
      [&](DeviceOperation& op) {
        bool fresh = false;
        Outcome outcome = Outcome::refused;
        if (op.kind == test::kInsert)
          outcome = map.insert(op.argument, op.second_argument, &fresh);
        else
          outcome = op.kind == test::kFind ? map.find(op.argument, &op.result) : map.erase(op.argument, &op.result);
        op.succeeded = op.kind == test::kInsert ? fresh : outcome == Outcome::done;
        return outcome;
      });
}

/// Ranks 0 and 1 replace the entries, all read them. `data` has kCacheWords words; `wrong` counts mixed contents,
/// versions that go back and abandoned waits.
__global__ void use_cache(const __grid_constant__ TeamView team, uint64_t* data, uint64_t* wrong) {
  DeviceParameterCache cache(team, kStructureAt, kCacheEntries, kCacheWords);
  uint64_t last[kCacheEntries] = {};
  for (int i = 0; i < kCacheSwaps; ++i) {
    const size_t entry = static_cast<size_t>(i) % kCacheEntries;
    if (team.rank < 2) {
      for (size_t word = threadIdx.x; word < kCacheWords; word += blockDim.x)
        data[word] = static_cast<uint64_t>(i) * 2 + static_cast<uint64_t>(team.rank) + 1;
      __syncthreads();
      if (cache.swap(entry, data) == DeviceParameterCache::kAbandoned && threadIdx.x == 0) *wrong += 1;
    }
    __syncthreads();
    const uint64_t version = cache.read(entry, data);
    __syncthreads();
    if (threadIdx.x == 0 && (version == DeviceParameterCache::kAbandoned || version < last[entry])) *wrong += 1;
    last[entry] = version;
    for (size_t word = threadIdx.x; version != 0 && word < kCacheWords; word += blockDim.x)
      if (data[word] != data[0]) atomicAdd(reinterpret_cast<unsigned long long*>(wrong), 1ull);
    __syncthreads();
  }
}

class SymmetricStructuresGpuTest : public SeveralGpusTest {
 protected:
  void SetUp() override {
    SeveralGpusTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    for (const PeerAbility& pair : list_cuda_peers())
      if (!pair.atomics) GTEST_SKIP() << "the GPUs have no atomics on each other's memory";
  }
  void TearDown() override {
    teams_.clear(), memory_.clear();
    SeveralGpusTest::TearDown();
  }
  void join(size_t structure_bytes) {
    memory_ = shared_zeros(kStructureAt + structure_bytes, 20);
    for (size_t r = 0; r < world(); ++r) teams_.push_back(CudaTeam::join(*devices_[r], memory_[r], "a structure"));
  }
  /// By round, the operations of all ranks.
  template <class Kernel>
  std::vector<std::vector<RecordedOperation>> histories_of(Kernel kernel) {
    constexpr size_t kAll = size_t{kStructureRounds} * kOperationsPerRound;
    std::vector<std::unique_ptr<GpuArray<DeviceOperation>>> operations;
    std::vector<std::unique_ptr<GpuArray<uint64_t>>> failed;
    for (size_t r = 0; r < world(); ++r) {
      operations.push_back(array<DeviceOperation>(r, std::vector<DeviceOperation>(kAll)));
      failed.push_back(array<uint64_t>(r, std::vector<uint64_t>(1)));
    }
    for (size_t r = 0; r < world(); ++r) {
      kernel<<<1, 32, 0, teams_[r]->use(*streams_[r])>>>(teams_[r]->view(), operations[r]->data(), failed[r]->data());
      cuda_check(cudaGetLastError(), devices_[r]->spec().index, "a history");
    }
    synchronize();
    std::vector<std::vector<RecordedOperation>> histories(kStructureRounds);
    for (size_t r = 0; r < world(); ++r) {
      EXPECT_EQ(failed[r]->get()[0], 0u) << "rank " << r;
      const std::vector<DeviceOperation> own = operations[r]->get();
      for (size_t i = 0; i < own.size(); ++i)
        histories[i / kOperationsPerRound].push_back({own[i].kind, own[i].argument, own[i].second_argument,
                                                      own[i].succeeded, own[i].result, own[i].invoked,
                                                      own[i].returned});
    }
    return histories;
  }
  /// Of every history: ticks are distinct, and operations of different ranks overlap in some of them.
  static void expect_overlaps(const std::vector<std::vector<RecordedOperation>>& histories) {
    size_t overlaps = 0;
    for (const auto& history : histories)
      for (const RecordedOperation& a : history)
        for (const RecordedOperation& b : history) overlaps += a.invoked < b.invoked && b.invoked < a.returned;
    EXPECT_GT(overlaps, histories.size()) << "the ranks ran one after another: the histories show nothing";
  }

  std::vector<SymmetricMemory> memory_;
  std::vector<std::shared_ptr<CudaTeam>> teams_;
};

TEST_F(SymmetricStructuresGpuTest, TheRingBufferIsAQueue) {
  join(DeviceRing<uint64_t>::bytes(kRingCapacity));
  const auto histories = histories_of(record_queue);
  expect_overlaps(histories);
  EXPECT_EQ(test::first_violation(histories, test::queue_model(kRingCapacity)), -1);
}

TEST_F(SymmetricStructuresGpuTest, TheMapIsAMap) {
  join(DeviceMap::bytes(kMapStripes));
  const auto histories = histories_of(record_map);
  expect_overlaps(histories);
  EXPECT_EQ(test::first_violation(histories, test::map_model), -1);
}

TEST_F(SymmetricStructuresGpuTest, ASwappedAdapterIsNeverSeenInPart) {
  join(DeviceParameterCache::bytes(kCacheEntries, kCacheWords));
  std::vector<std::unique_ptr<GpuArray<uint64_t>>> data, wrong;
  for (size_t r = 0; r < world(); ++r) {
    data.push_back(array<uint64_t>(r, std::vector<uint64_t>(kCacheWords)));
    wrong.push_back(array<uint64_t>(r, std::vector<uint64_t>(1)));
  }
  for (size_t r = 0; r < world(); ++r) {
    use_cache<<<1, 256, 0, teams_[r]->use(*streams_[r])>>>(teams_[r]->view(), data[r]->data(), wrong[r]->data());
    cuda_check(cudaGetLastError(), devices_[r]->spec().index, "use_cache");
  }
  synchronize();
  for (size_t r = 0; r < world(); ++r) EXPECT_EQ(wrong[r]->get()[0], 0u) << "rank " << r;
}

/// A lock that its rank does not give back: the others end their wait at the deadline and name that rank.
__global__ void insert_one(const __grid_constant__ TeamView team, uint64_t* abandoned) {
  DeviceMap map(team, kStructureAt, 1);
  bool fresh = false;
  uint64_t key = 0;
  while (map.home_of(key) != 0) ++key;
  *abandoned = map.insert(key, 1, &fresh) == Outcome::abandoned;
}

TEST_F(SymmetricStructuresGpuTest, ARankThatKeepsALockIsNamed) {
  memory_ = shared_zeros(kStructureAt + DeviceMap::bytes(1), 0.3);
  const auto team = CudaTeam::join(*devices_[0], memory_[0], "a structure");
  const uint64_t holder = world();  // the last rank has it
  devices_[0]->copy_in(*streams_[0], memory_[0].own<char>() + kStructureAt, &holder, sizeof holder);
  const auto abandoned = array<uint64_t>(0, std::vector<uint64_t>(1));
  insert_one<<<1, 1, 0, team->use(*streams_[0])>>>(team->view(), abandoned->data());
  cuda_check(cudaGetLastError(), devices_[0]->spec().index, "insert_one");
  expect_a_missing_rank();
  uint64_t found = 0;  // by CUDA itself: a wait for the broken team's stream throws again
  cuda_check(cudaMemcpy(&found, abandoned->data(), sizeof found, cudaMemcpyDeviceToHost), devices_[0]->spec().index,
             "cudaMemcpy");
  EXPECT_EQ(found, 1u);
}

}  // namespace
}  // namespace amdahl
