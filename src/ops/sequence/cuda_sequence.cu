// Embedding lookups, positions, pooling over steps and the absolute error.
#include "ops/sequence/cuda_sequence.h"

#include <cmath>

#include "ops/cuda_launch.cuh"
#include "ops/cuda_reduce.cuh"
#include "ops/cuda_typed.cuh"
#include "ops/gemm/cuda_matmul.h"

namespace amdahl {
namespace {

constexpr int kVector = 4;  // floats per access

/// Index of a group of kVec neighbouring elements of [rows, steps, width], taken apart. Divisions are of 32 bits where
/// there are fewer than 2^32 groups.
struct StepPlace {
  int64_t row, step, column;
};
template <int kVec>
__device__ __forceinline__ StepPlace step_place(int64_t group, int64_t groups, int64_t steps, int64_t width) {
  const int64_t per_step = width / kVec;
  if (groups <= UINT32_MAX) {
    const auto index = static_cast<unsigned>(group);
    const unsigned position = index / static_cast<unsigned>(per_step), row = position / static_cast<unsigned>(steps);
    return {row, position - row * steps, (index - position * static_cast<unsigned>(per_step)) * int64_t{kVec}};
  }
  const int64_t position = group / per_step;
  return {position / steps, position % steps, (group - position * per_step) * kVec};
}

template <int kVec>
__device__ __forceinline__ void add_floats(Floats<kVec>& to, const float* from) {
  const Floats<kVec> other = load_floats<kVec>(from);
#pragma unroll
  for (int i = 0; i < kVec; ++i) to.v[i] += other.v[i];
}

template <int kVec>
__device__ __forceinline__ Floats<kVec> filled(float value) {
  Floats<kVec> floats;
#pragma unroll
  for (int i = 0; i < kVec; ++i) floats.v[i] = value;
  return floats;
}

template <int kVec>
__global__ void __launch_bounds__(kThreads) embedding_kernel(EmbeddingForward a) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t groups = a.rows * a.steps * (a.width / kVec);
  for (int64_t i = thread_index(); i < groups; i += thread_count()) {
    const StepPlace at = step_place<kVec>(i, groups, a.steps, a.width);
    const int64_t position = at.row * a.steps + at.step;
    const float token = a.tokens[position] - static_cast<float>(a.first);
    Floats<kVec> value = filled<kVec>(a.is_shard ? 0.0f : NAN);  // of a token that is not in the table
    if (token >= 0 && token < static_cast<float>(a.vocabulary))
      value = load_floats<kVec>(a.table + static_cast<int64_t>(token) * a.width + at.column);
    const int64_t place = a.starts ? at.step - a.starts[position] : at.step;  // in its document
    if (a.positions) add_floats(value, a.positions + place * a.width + at.column);
    if (a.common) add_floats(value, a.common + at.column);
    store_floats(a.out + position * a.width + at.column, value);
  }
}

/// A block has one row, and passes over its steps.
__global__ void __launch_bounds__(kThreads) document_starts_kernel(DocumentStarts a) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ int last_of_warp[kWarps];
  let_successor_start();
  wait_for_predecessor();
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * a.steps;
  int before = 0;  // where the document of the step before these ones begins
  for (int64_t first = 0; first < a.steps; first += kThreads) {
    const int64_t step = first + threadIdx.x;
    const bool begins = step < a.steps && static_cast<int64_t>(a.tokens[row + step]) == a.end;
    const unsigned in_warp = __ballot_sync(0xffffffffu, begins), up_to_lane = in_warp & (0xffffffffu >> (31 - lane));
    const int origin = static_cast<int>(first) + warp * kWarp;
    const auto last = [&](unsigned lanes) { return lanes != 0 ? origin + 31 - __clz(static_cast<int>(lanes)) : -1; };
    if (lane == 0) last_of_warp[warp] = last(in_warp);
    __syncthreads();
    int start = before;
    for (int w = 0; w < kWarps; ++w) {
      if (w < warp) start = max(start, last_of_warp[w]);
      before = max(before, last_of_warp[w]);
    }
    if (step < a.steps) a.starts[row + step] = max(start, last(up_to_lane));
    __syncthreads();  // before the next steps are written
  }
}

template <class T, int kVec>
__global__ void __launch_bounds__(kThreads) add_positions_kernel(AddPositions a) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t groups = a.rows * a.steps * (a.width / kVec);
  for (int64_t i = thread_index(); i < groups; i += thread_count()) {
    Floats<kVec> value = load_floats<kVec>(static_cast<const T*>(a.x) + i * kVec);
    if (a.positions) {
      const StepPlace at = step_place<kVec>(i, groups, a.steps, a.width);
      add_floats(value, a.positions + at.step * a.width + at.column);
    }
    store_floats(a.y + i * kVec, value);
  }
}

/// y = the step `step` of each row.
template <int kVec>
__global__ void __launch_bounds__(kThreads) take_step_kernel(PoolSteps a, int64_t step) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t groups = a.rows * (a.width / kVec);
  for (int64_t i = thread_index(); i < groups; i += thread_count()) {
    const StepPlace at = step_place<kVec>(i, groups, 1, a.width);
    store_floats(a.y + at.row * a.width + at.column,
                 load_floats<kVec>(a.x + (at.row * a.steps + step) * a.width + at.column));
  }
}

/// d_x = d_y * scale in the step `only`, or in every step if that is negative; zero elsewhere.
template <int kVec>
__global__ void __launch_bounds__(kThreads) spread_steps_kernel(PoolStepsGradient a, int64_t only, float scale) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t groups = a.rows * a.steps * (a.width / kVec);
  for (int64_t i = thread_index(); i < groups; i += thread_count()) {
    const StepPlace at = step_place<kVec>(i, groups, a.steps, a.width);
    Floats<kVec> value = {};
    if (only < 0 || at.step == only) {
      value = load_floats<kVec>(a.d_y + at.row * a.width + at.column);
#pragma unroll
      for (int j = 0; j < kVec; ++j) value.v[j] *= scale;
    }
    store_floats(a.d_x + i * kVec, value);
  }
}

__global__ void __launch_bounds__(kThreads)
    absolute_error_kernel(AbsoluteError a, bool vector, double* partials, unsigned* counter) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t count = a.rows * a.width, groups = vector ? count / kVector : 0;
  float own = 0;
  for (int64_t i = thread_index(); i < groups; i += thread_count()) {
    const Floats<kVector> p = load_floats<kVector>(a.prediction + i * kVector),
                          t = load_floats<kVector>(a.target + i * kVector);
#pragma unroll
    for (int j = 0; j < kVector; ++j) own += fabsf(p.v[j] - t.v[j]);
  }
  for (int64_t i = groups * kVector + thread_index(); i < count; i += thread_count())
    own += fabsf(a.prediction[i] - a.target[i]);
  double sum = block_sum<kThreads>(own);
  if (gridDim.x > 1) {
    if (threadIdx.x == 0) partials[blockIdx.x] = sum;
    if (!arrives_last(counter, gridDim.x)) return;
    double others = 0;
    for (unsigned i = threadIdx.x; i < gridDim.x; i += kThreads) others += __ldcg(&partials[i]);
    sum = block_sum<kThreads>(others);
  }
  if (threadIdx.x == 0) *a.stat = static_cast<float>(sum * a.scale);
}

bool vectorises(int64_t width, std::initializer_list<const void*> pointers) {
  return width % kVector == 0 && std::all_of(pointers.begin(), pointers.end(), aligned16);
}

int64_t step_of(Pooling pooling, int64_t steps) { return pooling == Pooling::last ? steps - 1 : 0; }

}  // namespace

void launch_embedding(const KernelLaunch& launch, const EmbeddingForward& a) {
  const int64_t count = a.rows * a.steps * a.width;
  if (count == 0) return;
  const bool vector = vectorises(a.width, {a.table, a.positions, a.common, a.out});
  launch_early(launch, streaming_blocks(launch, vector ? count / kVector : count), kThreads,
               vector ? embedding_kernel<kVector> : embedding_kernel<1>, "embedding_kernel", a);
}

void launch_document_starts(const KernelLaunch& launch, const DocumentStarts& a) {
  if (a.rows * a.steps == 0) return;
  launch_early(launch, static_cast<unsigned>(a.rows), kThreads, document_starts_kernel, "document_starts_kernel", a);
}

void launch_add_positions(const KernelLaunch& launch, const AddPositions& a) {
  const int64_t count = a.rows * a.steps * a.width;
  if (count == 0) return;
  const bool vector = vectorises(a.width, {a.x, a.positions, a.y});
  with_element_type(a.type, [&](auto element) {
    using T = typename decltype(element)::type;
    auto* kernel = vector ? add_positions_kernel<T, kVector> : add_positions_kernel<T, 1>;
    launch_early(launch, streaming_blocks(launch, vector ? count / kVector : count), kThreads, kernel,
                 "add_positions_kernel", a);
  });
}

void launch_pool_steps(const KernelLaunch& launch, const PoolSteps& a) {
  if (a.rows * a.width == 0) return;
  if (a.pooling == Pooling::mean)
    return launch_column_sums(launch, {.x = a.x,
                                       .type = DType::f32,
                                       .out = a.y,
                                       .rows = a.steps,
                                       .width = a.width,
                                       .batches = a.rows,
                                       .scale = 1.0f / static_cast<float>(a.steps)});
  const bool vector = vectorises(a.width, {a.x, a.y});
  launch_early(launch, streaming_blocks(launch, a.rows * a.width / (vector ? kVector : 1)), kThreads,
               vector ? take_step_kernel<kVector> : take_step_kernel<1>, "take_step_kernel", a,
               step_of(a.pooling, a.steps));
}

void launch_pool_steps_gradient(const KernelLaunch& launch, const PoolStepsGradient& a) {
  const int64_t count = a.rows * a.steps * a.width;
  if (count == 0) return;
  const bool vector = vectorises(a.width, {a.d_y, a.d_x}), mean = a.pooling == Pooling::mean;
  launch_early(launch, streaming_blocks(launch, vector ? count / kVector : count), kThreads,
               vector ? spread_steps_kernel<kVector> : spread_steps_kernel<1>, "spread_steps_kernel", a,
               mean ? int64_t{-1} : step_of(a.pooling, a.steps), mean ? 1.0f / static_cast<float>(a.steps) : 1.0f);
}

void launch_absolute_error(const KernelLaunch& launch, const AbsoluteError& a) {
  const unsigned blocks =
      std::min(num_blocks(a.rows * a.width, 4 * kThreads), static_cast<unsigned>(2 * launch.num_sms));
  launch_early(launch, blocks, kThreads, absolute_error_kernel, "absolute_error_kernel", a,
               aligned16(a.prediction) && aligned16(a.target), reinterpret_cast<double*>(launch.scratch.partials),
               launch.scratch.counters);
}

}  // namespace amdahl
