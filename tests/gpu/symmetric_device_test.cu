// The device header of symmetric memory: kernels of all ranks put, get, signal and wait beside each other.
#include <cuda_runtime.h>

#include "device/cuda_check.h"
#include "several_gpus.h"
#include "symmetric/cuda_symmetric.cuh"
#include "symmetric/cuda_team.h"

namespace amdahl {
namespace {

using namespace symmetric_cuda;

constexpr int kThreads = 128;
constexpr int kCount = 4'099;
constexpr int kRounds = 20;

struct Shared {
  uint64_t inbox[kCount];
  uint64_t value;
  uint64_t counter;
  Signal full;
};

/// One block per rank. `wrong` counts values that are not as they should be; `scratch` has kCount elements.
__global__ void work_as_team(const __grid_constant__ TeamView team, uint64_t* scratch, uint64_t* wrong) {
  auto* own = reinterpret_cast<Shared*>(team.base[team.rank] + kTeamFlagBytes);
  const int next = (team.rank + 1) % team.size, previous = (team.rank + team.size - 1) % team.size;
  const auto count_wrong = [&](bool bad) {
    if (bad) atomicAdd(reinterpret_cast<unsigned long long*>(wrong), 1ull);
  };
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t number = this_round(team);  // goes on over replays
    __syncthreads();
    for (int i = threadIdx.x; i < kCount; i += kThreads) scratch[i] = number * kCount + i + team.rank;
    __syncthreads();
    put_signal(team, own->inbox, scratch, kCount, &own->full, number, next);
    __shared__ bool arrived;
    if (threadIdx.x == 0) arrived = wait_until(team, &own->full, number, previous);
    __syncthreads();
    count_wrong(!arrived);
    for (int i = threadIdx.x; i < kCount; i += kThreads)
      count_wrong(__ldcg(&own->inbox[i]) != number * kCount + i + previous);
    if (threadIdx.x == 0) own->value = number + team.rank;
    __syncthreads();
    count_wrong(!barrier(team));
    get(team, scratch, &own->value, 1, next);
    __syncthreads();
    if (threadIdx.x == 0) count_wrong(scratch[0] != number + next);
    if (threadIdx.x == 0) fetch_add(team, &own->counter, 1, 0);
    count_wrong(!barrier(team));
  }
}

class SymmetricDeviceTest : public SeveralGpusTest {};

TEST_F(SymmetricDeviceTest, RingInReplayedGraphs) {
  constexpr int kReplays = 5;
  const auto memory = shared_zeros(kTeamFlagBytes + sizeof(Shared), 20);
  std::vector<std::shared_ptr<CudaTeam>> teams;
  std::vector<std::unique_ptr<GpuArray<uint64_t>>> scratch, wrong;
  for (size_t r = 0; r < world(); ++r) {
    teams.push_back(CudaTeam::join(*devices_[r], memory[r], "a test"));
    scratch.push_back(array<uint64_t>(r, std::vector<uint64_t>(kCount)));
    wrong.push_back(array<uint64_t>(r, std::vector<uint64_t>(1)));
  }
  for (const PeerAbility& pair : list_cuda_peers())
    if (!pair.atomics) GTEST_SKIP() << "the GPUs have no atomics on each other's memory";
  const auto graphs = graphs_of([&](size_t r) {
    work_as_team<<<1, kThreads, 0, teams[r]->use(*streams_[r])>>>(teams[r]->view(), scratch[r]->data(),
                                                                  wrong[r]->data());
    cuda_check(cudaGetLastError(), devices_[r]->spec().index, "work_as_team");
  });
  for (int replay = 0; replay < kReplays; ++replay)
    for (size_t r = 0; r < world(); ++r) graphs[r]->launch(*streams_[r]);
  synchronize();
  for (size_t r = 0; r < world(); ++r) EXPECT_EQ(wrong[r]->get()[0], 0u) << "rank " << r;
  uint64_t sum = 0;
  devices_[0]->copy_out(*streams_[0], &sum, memory[0].own<char>() + kTeamFlagBytes + offsetof(Shared, counter),
                        sizeof(sum));
  synchronize();
  EXPECT_EQ(sum, static_cast<uint64_t>(kReplays) * kRounds * world());
  teams.clear();
}

}  // namespace
}  // namespace amdahl
