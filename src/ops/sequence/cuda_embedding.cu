// The gradient of an embedding table, bit-equal from run to run: the positions of the tokens are sorted by token
// (stable), chunks of the sorted list are summed by a block each, and runs of one token that span several chunks are
// summed in the order of their chunks. The work per block does not depend on how often a token occurs.
#include <cub/device/device_radix_sort.cuh>

#include <string>
#include <utility>

#include "ops/cuda_launch.cuh"
#include "ops/cuda_typed.cuh"
#include "ops/gemm/cuda_tuner.h"
#include "ops/sequence/cuda_sequence.h"

namespace amdahl {
namespace {

constexpr int kRunThreads = 64, kMostChunk = 64, kLeastChunk = 8;
constexpr int kAhead = 8;  // rows that are loaded at once

/// Token i, or `vocabulary` if it is not in the table.
struct TokenKey {
  const float* tokens;
  int64_t vocabulary, first;
  __device__ __forceinline__ int64_t operator()(int64_t i) const {
    const float token = tokens[i] - static_cast<float>(first);
    return token >= 0 && token < static_cast<float>(vocabulary) ? static_cast<int64_t>(token) : vocabulary;
  }
};

/// The position of token i in its document.
struct PositionKey {
  const int32_t* starts;
  int64_t steps;
  __device__ __forceinline__ int64_t operator()(int64_t i) const { return i % steps - starts[i]; }
};

/// keys[i] = key(i); places[i] = i.
template <class Key>
__global__ void __launch_bounds__(kThreads) keys_kernel(Key key, uint32_t* keys, uint32_t* places, int64_t count) {
  let_successor_start();
  wait_for_predecessor();
  for (int64_t i = thread_index(); i < count; i += thread_count()) {
    keys[i] = static_cast<uint32_t>(key(i));
    places[i] = static_cast<uint32_t>(i);
  }
}

struct SortedTokens {
  const uint32_t* keys;
  const uint32_t* places;
  int count, chunk;  // tokens, tokens per chunk
  uint32_t vocabulary;
  int64_t width;
};

template <int kVec>
__device__ __forceinline__ void add_to_row(float* row, const Floats<kVec>& sum) {
  Floats<kVec> value = load_floats<kVec>(row);
#pragma unroll
  for (int i = 0; i < kVec; ++i) value.v[i] += sum.v[i];
  store_floats(row, value);
}

/// Sums the runs of chunk blockIdx.x. A run within the chunk is added to the table. A run that began in an earlier
/// chunk goes to partials[chunk, 0], one that begins here and goes on in the next to partials[chunk, 1].
template <int kVec>
__global__ void __launch_bounds__(kRunThreads)
    sum_runs_kernel(SortedTokens sorted, const float* d_out, float* d_table, float* partials) {
  __shared__ uint32_t keys[kMostChunk + 1], places[kMostChunk];
  let_successor_start();
  wait_for_predecessor();
  const int begin = static_cast<int>(blockIdx.x) * sorted.chunk, count = min(sorted.chunk, sorted.count - begin);
  if (static_cast<int>(threadIdx.x) < count) {
    keys[threadIdx.x] = sorted.keys[begin + threadIdx.x];
    places[threadIdx.x] = sorted.places[begin + threadIdx.x];
  }
  if (threadIdx.x == 0) keys[count] = begin + count < sorted.count ? sorted.keys[begin + count] : UINT32_MAX;
  __syncthreads();
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * kRunThreads + threadIdx.x) * kVec;
  if (column >= sorted.width) return;
  bool began_before = begin > 0 && sorted.keys[begin - 1] == keys[0];
  Floats<kVec> sum = {};
  for (int base = 0; base < count; base += kAhead) {
    Floats<kVec> rows[kAhead];
#pragma unroll
    for (int u = 0; u < kAhead; ++u)
      if (base + u < count) rows[u] = load_floats<kVec>(d_out + places[base + u] * sorted.width + column);
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int i = base + u;
      if (i >= count) continue;
#pragma unroll
      for (int j = 0; j < kVec; ++j) sum.v[j] += rows[u].v[j];
      const bool goes_on = keys[i + 1] == keys[i];
      if (goes_on && i + 1 < count) continue;
      if (began_before || goes_on)
        store_floats(partials + (2 * static_cast<int64_t>(blockIdx.x) + (began_before ? 0 : 1)) * sorted.width + column,
                     sum);
      else if (keys[i] < sorted.vocabulary)
        add_to_row(d_table + keys[i] * sorted.width + column, sum);
      sum = {};
      began_before = false;
    }
  }
}

/// Adds the run that begins in chunk blockIdx.x and goes on in the next ones, if there is one, to the table.
template <int kVec>
__global__ void __launch_bounds__(kRunThreads)
    join_runs_kernel(SortedTokens sorted, float* d_table, const float* partials) {
  let_successor_start();
  wait_for_predecessor();
  const int begin = static_cast<int>(blockIdx.x) * sorted.chunk, end = begin + sorted.chunk;
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * kRunThreads + threadIdx.x) * kVec;
  if (end >= sorted.count || column >= sorted.width) return;
  const uint32_t key = sorted.keys[end - 1];
  if (sorted.keys[end] != key || key >= sorted.vocabulary) return;
  if (begin > 0 && sorted.keys[begin - 1] == key) return;  // it began before
  const int chunks = static_cast<int>(gridDim.x);
  Floats<kVec> sum = load_floats<kVec>(partials + (2 * static_cast<int64_t>(blockIdx.x) + 1) * sorted.width + column);
  bool goes_on = true;
  for (int base = static_cast<int>(blockIdx.x) + 1; goes_on && base < chunks; base += kAhead) {
    Floats<kVec> parts[kAhead];
    uint32_t next[kAhead];  // the key after each chunk
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {  // also of chunks after the run's end, which are not used
      if (base + u >= chunks) continue;
      const int after = (base + u + 1) * sorted.chunk;
      parts[u] = load_floats<kVec>(partials + 2 * static_cast<int64_t>(base + u) * sorted.width + column);
      next[u] = after < sorted.count ? sorted.keys[after] : UINT32_MAX;
    }
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      if (!goes_on || base + u >= chunks) continue;
#pragma unroll
      for (int j = 0; j < kVec; ++j) sum.v[j] += parts[u].v[j];
      goes_on = next[u] == key;
    }
  }
  add_to_row(d_table + key * sorted.width + column, sum);
}

/// Takes arrays of 256-byte alignment from the workspace, one after the other.
class WorkspaceArrays {
 public:
  explicit WorkspaceArrays(const GemmWorkspace& workspace)
      : next_(static_cast<char*>(workspace.data)), left_(workspace.bytes) {}
  void* take(size_t bytes) {
    const size_t rounded = (bytes + 255) / 256 * 256;
    if (rounded > left_) return nullptr;
    left_ -= rounded;
    return std::exchange(next_, next_ + rounded);
  }
  size_t left() const { return left_; }

 private:
  char* next_;
  size_t left_;
};

int bits_of(int64_t value) {
  int bits = 1;
  while (value >> bits != 0) ++bits;
  return bits;
}

[[noreturn]] void too_many(int64_t tokens) {
  throw Error(Cause::usage, "the gradient of an embedding of " + std::to_string(tokens) + " tokens in one call",
              "a smaller micro-batch");
}

template <int kVec>
void sum_runs(const KernelLaunch& launch, const SortedTokens& sorted, const float* d_out, float* d_table,
              float* partials) {
  const dim3 blocks(num_blocks(sorted.count, sorted.chunk), num_blocks(sorted.width, int64_t{kRunThreads} * kVec));
  launch_early_shared(launch, {blocks, kRunThreads, 0}, sum_runs_kernel<kVec>, "sum_runs_kernel", sorted, d_out,
                      d_table, partials);
  launch_early_shared(launch, {blocks, kRunThreads, 0}, join_runs_kernel<kVec>, "join_runs_kernel", sorted, d_table,
                      partials);
}

/// Adds the gradients of all tokens to the rows of a table that their keys name, which are below `vocabulary`.
template <class Key>
void add_to_table(const KernelLaunch& launch, const GemmWorkspace& workspace, const EmbeddingBackward& a, Key key,
                  int64_t vocabulary, float* d_table) {
  const int64_t count = a.rows * a.steps;
  if (count * a.width == 0) return;
  const size_t array_bytes = static_cast<size_t>(count) * sizeof(uint32_t);
  WorkspaceArrays arrays(workspace);
  uint32_t* lists[4];  // keys and places, before and after sorting
  for (uint32_t*& list : lists) list = static_cast<uint32_t*>(arrays.take(array_bytes));
  const int bits = bits_of(vocabulary);
  size_t sort_bytes = 0;
  const RelaxedCapture relaxed;  // the sort asks for the attributes of its kernels
  const auto sort = [&](void* memory) {
    return cub::DeviceRadixSort::SortPairs(memory, sort_bytes, lists[0], lists[1], lists[2], lists[3],
                                           static_cast<int>(count), 0, bits, launch.stream);
  };
  if (!lists[3]) too_many(count);
  cuda_check(sort(nullptr), launch.device_index, "cub::DeviceRadixSort::SortPairs");
  void* sort_memory = arrays.take(sort_bytes);
  if (!sort_memory) too_many(count);

  // Chunks are as long as still fills the GPU, and longer if the partial sums do not fit.
  const size_t row_bytes = 2 * static_cast<size_t>(a.width) * sizeof(float);
  int chunk = kLeastChunk;
  const auto chunks = [&] { return static_cast<size_t>(num_blocks(count, chunk)); };
  while (chunk < kMostChunk &&
         (chunks() > static_cast<size_t>(16 * launch.num_sms) || chunks() * row_bytes > arrays.left()))
    chunk *= 2;
  auto* partials = static_cast<float*>(arrays.take(chunks() * row_bytes));
  if (!partials) too_many(count);

  launch_early(launch, streaming_blocks(launch, count), kThreads, keys_kernel<Key>, "keys_kernel", key, lists[0],
               lists[2], count);
  cuda_check(sort(sort_memory), launch.device_index, "cub::DeviceRadixSort::SortPairs");
  const SortedTokens sorted{lists[1], lists[3], static_cast<int>(count), chunk, static_cast<uint32_t>(vocabulary),
                            a.width};
  const bool vector = a.width % 4 == 0 && aligned16(a.d_out) && aligned16(d_table);
  vector ? sum_runs<4>(launch, sorted, a.d_out, d_table, partials)
         : sum_runs<1>(launch, sorted, a.d_out, d_table, partials);
}

}  // namespace

void launch_embedding_gradient(const KernelLaunch& launch, const GemmWorkspace& workspace, const EmbeddingBackward& a) {
  add_to_table(launch, workspace, a, TokenKey{a.tokens, a.vocabulary, a.first}, a.vocabulary, a.d_table);
}

void launch_document_positions_gradient(const KernelLaunch& launch, const GemmWorkspace& workspace,
                                        const EmbeddingBackward& a) {
  add_to_table(launch, workspace, a, PositionKey{a.starts, a.steps}, a.steps, a.d_positions);
}

}  // namespace amdahl
