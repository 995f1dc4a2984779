// The emulator itself: what it computes, and that it finds what it is there to find.
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <vector>

#include "cuda_builtins.h"
#include "ops/cuda_instructions.cuh"

namespace amdahl {
namespace {

/// Each block sends its rank and thread indices to its right neighbour in the cluster, which adds them up.
void neighbour_body(int* sums, std::byte* shared) {
  int* const received = reinterpret_cast<int*>(shared);
  const ClusterPlace place = cluster_place();
  const int thread = static_cast<int>(threadIdx.x);
  peer_pointer(received, (place.rank + 1) % place.size)[thread] = 1000 * place.rank + thread;
  arrive_at_peers();
  wait_for_peers();
  int sum = received[thread];
  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);
  if (thread % 32 == 0) sums[blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32] = sum;
}

TEST(Emulator, ClustersAndWarps) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    std::vector<int> sums(6 * 2);
    emulator::run({.blocks = 6, .threads = 64, .cluster = 3, .shared_bytes = 64 * sizeof(int), .seed = seed},
                  [&](std::byte* shared) { neighbour_body(sums.data(), shared); });
    for (int block = 0; block < 6; ++block)
      for (int warp = 0; warp < 2; ++warp)
        EXPECT_EQ(sums[static_cast<size_t>(2 * block + warp)], 32 * 1000 * ((block + 2) % 3) + 32 * 32 * warp + 496);
  }
}

/// out[16,8] = a[16,16] b[8,16]^T of bf16, by way of shared memory.
void product_body(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out, std::byte* shared) {
  auto* const tile = reinterpret_cast<__nv_bfloat16*>(shared);  // a, then b twice
  const int lane = static_cast<int>(threadIdx.x);
  copy16(tile + lane * 8, a + lane * 8, true);
  copy16(tile + 256 + lane * 8, b + lane % 16 * 8, true);
  commit_copies();
  wait_for_copies<0>();
  __syncwarp();
  uint32_t fragment[4], columns[4];
  load_matrices(fragment, tile + lane % 16 * 16 + lane / 16 * 8);
  load_matrices(columns, tile + 256 + lane % 8 * 16 + lane / 8 % 2 * 8);
  float c[4] = {};
  mma_half<__nv_bfloat16>(c, fragment, columns[0], columns[1]);
  for (int i = 0; i < 4; ++i) out[(lane / 4 + 8 * (i / 2)) * 8 + 2 * (lane % 4) + i % 2] = c[i];
}

TEST(Emulator, Product) {
  std::vector<__nv_bfloat16> a(16 * 16), b(8 * 16);
  for (size_t i = 0; i < a.size(); ++i) a[i] = __float2bfloat16_rn(static_cast<float>(i % 13) - 6.0f);
  for (size_t i = 0; i < b.size(); ++i) b[i] = __float2bfloat16_rn(static_cast<float>(i % 7) - 3.0f);
  std::vector<float> out(16 * 8);
  emulator::run({.shared_bytes = 1024, .seed = 1},
                [&](std::byte* shared) { product_body(a.data(), b.data(), out.data(), shared); });
  for (size_t row = 0; row < 16; ++row)
    for (size_t column = 0; column < 8; ++column) {
      float want = 0;
      for (size_t k = 0; k < 16; ++k) want += __bfloat162float(a[row * 16 + k]) * __bfloat162float(b[column * 16 + k]);
      EXPECT_EQ(out[row * 8 + column], want);
    }
}

/// Every thread passes its index to the next one through shared memory; correct only with the barrier.
std::vector<int> pass_on(bool barrier, uint64_t seed) {
  std::vector<int> got(64);
  emulator::run({.threads = 64, .shared_bytes = 64 * sizeof(int), .seed = seed}, [&](std::byte* shared) {
    int* const places = reinterpret_cast<int*>(shared);
    const int thread = static_cast<int>(threadIdx.x);
    places[(thread + 1) % 64] = thread;
    if (barrier) __syncthreads();
    got[static_cast<size_t>(thread)] = places[thread];
  });
  return got;
}

TEST(Emulator, OrdersShowAMissingBarrier) {
  std::set<std::vector<int>> with, without;
  for (uint64_t seed = 0; seed < 8; ++seed) with.insert(pass_on(true, seed)), without.insert(pass_on(false, seed));
  EXPECT_EQ(with.size(), 1u);
  EXPECT_GT(without.size(), 1u);
}

TEST(Emulator, LateCopiesShowAMissingWait) {
  const std::vector<float> from(4, 1.0f);
  std::vector<float> got(4);
  emulator::run({.shared_bytes = 16, .seed = 2}, [&](std::byte* shared) {
    if (threadIdx.x == 0) {
      copy16(shared, from.data(), true);
      commit_copies();
      got[0] = reinterpret_cast<float*>(shared)[0];  // too early
      wait_for_copies<0>();
      got[1] = reinterpret_cast<float*>(shared)[1];
    }
  });
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(got[1], 1.0f);
}

TEST(Emulator, ErrorsOfKernels) {
  const auto run_block = [](const std::function<void(std::byte*)>& kernel) {
    emulator::run({.threads = 64, .shared_bytes = 64}, kernel);
  };
  EXPECT_THROW(run_block([](std::byte*) {
                 if (threadIdx.x < 63) __syncthreads();
               }),
               std::runtime_error);
  EXPECT_THROW(run_block([](std::byte*) {
                 if (threadIdx.x % 2 == 0) __syncwarp();
                 if (threadIdx.x % 2 == 1) __shfl_xor_sync(0xffffffffu, 1, 1);
               }),
               std::runtime_error);
  EXPECT_THROW(run_block([](std::byte*) { wait_for_peers(); }), std::runtime_error);
  EXPECT_THROW(run_block([](std::byte* shared) { copy16(shared + 64, shared, true); }), std::runtime_error);
  EXPECT_THROW(run_block([](std::byte* shared) {
                 copy16(shared, nullptr, false);
                 commit_copies();
               }),
               std::runtime_error);
}

}  // namespace
}  // namespace amdahl
