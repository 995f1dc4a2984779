#include "ops/gemm/cuda_column_finish.h"

#include "ops/cuda_launch.cuh"
#include "ops/cuda_reduce.cuh"

namespace amdahl {
namespace {

constexpr int kSlices = 32;  // of the parts, summed side by side

// A block has 32 columns, a row of its threads a slice of the parts: parts / 32 loads follow one another.
__global__ void __launch_bounds__(kWarp* kSlices) column_finish_kernel(ColumnFinish a) {
  __shared__ float sums[kSlices][kWarp + 1];
  let_successor_start();
  wait_for_predecessor();
  const int lane = threadIdx.x % kWarp, slice = threadIdx.x / kWarp;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarp + lane, batch = blockIdx.y;
  const float* partials = a.partials + batch * a.parts * a.width + column;
  float sum = 0;
  if (column < a.width)
#pragma unroll 8
    for (int64_t part = slice; part < a.parts; part += kSlices) sum += __ldcg(partials + part * a.width);
  sums[slice][lane] = sum;
  __syncthreads();
  // A warp adds the slices of one column.
  const int64_t own = static_cast<int64_t>(blockIdx.x) * kWarp + slice;
  const float total = warp_sum(sums[lane][slice]);
  if (lane > 0 || own >= a.width) return;
  float* out = a.out + batch * a.out_stride + own;
  *out = total * a.scale + (a.accumulate ? *out : 0.0f);
}

}  // namespace

void launch_column_finish(const KernelLaunch& launch, const ColumnFinish& a) {
  const dim3 blocks(num_blocks(a.width, kWarp), static_cast<unsigned>(a.batches));
  launch_early_shared(launch, {blocks, kWarp * kSlices, 0}, column_finish_kernel, "column_finish_kernel", a);
}

}  // namespace amdahl
