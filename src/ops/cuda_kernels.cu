#include "ops/cuda_kernels.h"

#include <algorithm>

#include "base/philox.h"
#include "device/cuda_check.h"
#include "ops/cuda_launch.cuh"
#include "ops/cuda_reduce.cuh"

namespace amdahl {
namespace {

// Element-wise kernels over [rows, width] that may write a mask: eight neighbouring threads own 32 columns of a row,
// four each, so that their bits form one 32-bit word of the mask.
struct Place {
  int64_t row;
  int column;  // first of four
  int group;   // 32-column group within the row
  int lane;    // 0..7 within the group
  bool inside;
};

// Partition of [rows, width] into groups of 32 columns. There are fewer than 2^32 groups, so that one 32-bit division
// gives the row.
struct Shape {
  int64_t rows;
  int width;
  unsigned groups_per_row;
  int mask_words_per_row;
};

Shape shape_of(int64_t rows, int64_t width) {
  return {rows, static_cast<int>(width), static_cast<unsigned>((width + 31) / 32),
          static_cast<int>(mask_row_bits(width) / 32)};
}

__device__ __forceinline__ Place place_of_thread(const Shape& shape) {
  const unsigned group = blockIdx.x * (kThreads / 8) + threadIdx.x / 8;
  const unsigned row = group / shape.groups_per_row;
  Place place;
  place.lane = threadIdx.x % 8;
  place.row = row;
  place.group = static_cast<int>(group - row * shape.groups_per_row);
  place.column = place.group * 32 + place.lane * 4;
  place.inside = place.row < shape.rows && place.column < shape.width;
  return place;
}

template <bool kVector>
__device__ __forceinline__ void load4(const float* row, int column, int width, float (&v)[4]) {
  if constexpr (kVector) {
    const float4 packed = *reinterpret_cast<const float4*>(row + column);
    v[0] = packed.x, v[1] = packed.y, v[2] = packed.z, v[3] = packed.w;
  } else {
    for (int i = 0; i < 4; ++i) v[i] = column + i < width ? row[column + i] : 0.0f;
  }
}

template <bool kVector>
__device__ __forceinline__ void store4(float* row, int column, int width, const float (&v)[4]) {
  if constexpr (kVector) {
    *reinterpret_cast<float4*>(row + column) = make_float4(v[0], v[1], v[2], v[3]);
  } else {
    for (int i = 0; i < 4; ++i)
      if (column + i < width) row[column + i] = v[i];
  }
}

// All 32 lanes of a warp call it; lane 0 of each group of eight writes the word.
__device__ __forceinline__ void store_mask(uint8_t* mask, const Place& place, const Shape& shape, const float (&v)[4]) {
  unsigned bits = 0;
  for (int i = 0; i < 4; ++i) bits |= (v[i] != 0.0f ? 1u : 0u) << i;
  bits <<= 4 * place.lane;
  for (int offset = 1; offset < 8; offset *= 2) bits |= __shfl_xor_sync(0xffffffffu, bits, offset);
  if (place.lane == 0 && place.row < shape.rows)
    reinterpret_cast<unsigned*>(mask)[place.row * shape.mask_words_per_row + place.group] = bits;
}

template <bool kVector>
__global__ void __launch_bounds__(kThreads)
    bias_relu_kernel(float* y, const float* bias, bool relu, uint8_t* mask, Shape shape) {
  const Place place = place_of_thread(shape);
  const int width = shape.width;
  float v[4] = {};
  if (place.inside) {
    load4<kVector>(y + place.row * width, place.column, width, v);
    for (int i = 0; i < 4; ++i) {
      if (bias && place.column + i < width) v[i] += bias[place.column + i];
      if (relu) v[i] = v[i] < 0.0f ? 0.0f : v[i];  // keeps NaN, unlike fmaxf
    }
    store4<kVector>(y + place.row * width, place.column, width, v);
  }
  if (mask) store_mask(mask, place, shape, v);
}

struct DropoutParameters {
  uint64_t seed;
  const uint64_t* step;
  int64_t row_offset;
  uint32_t first_block, layer, keep_threshold;  // blocks of four columns
  float scale;
};

template <bool kVector>
__global__ void __launch_bounds__(kThreads) dropout_kernel(float* y, uint8_t* mask, Shape shape, DropoutParameters p) {
  const Place place = place_of_thread(shape);
  const int width = shape.width;
  float v[4] = {};
  if (place.inside) {
    load4<kVector>(y + place.row * width, place.column, width, v);
    const Philox4 draw =
        dropout_draw(p.seed, p.first_block + static_cast<uint32_t>(place.column / 4),
                     static_cast<uint32_t>(p.row_offset + place.row), static_cast<uint32_t>(*p.step), p.layer);
    for (int i = 0; i < 4; ++i) v[i] = draw.v[i] < p.keep_threshold ? v[i] * p.scale : 0.0f;
    store4<kVector>(y + place.row * width, place.column, width, v);
  }
  if (mask) store_mask(mask, place, shape, v);
}

__global__ void __launch_bounds__(kThreads) add_kernel(float* destination, const float* source, int64_t n) {
  for (int64_t i = thread_index(); i < n; i += thread_count()) destination[i] += source[i];
}

__global__ void __launch_bounds__(kThreads) sum_arrays_kernel(SumArrays a) {
  for (int64_t i = thread_index(); i < a.n; i += thread_count()) {
    float sum = a.accumulate ? a.sum[i] + a.arrays[i] : a.arrays[i];
    for (int64_t k = 1; k < a.num_arrays; ++k) sum += a.arrays[k * a.stride + i];
    a.sum[i] = a.factor * sum;
  }
}

// kPerThread independent loads are in flight per thread, because odd row widths allow only 4-byte accesses.
template <class T, int kPerThread>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const T* table, const int32_t* indices, T* out, int64_t total, unsigned width) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads * kPerThread + threadIdx.x;
  T values[kPerThread];
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) {
    const int64_t at = first + i * kThreads;
    if (at >= total) break;
    const int64_t row = total <= UINT32_MAX ? static_cast<unsigned>(at) / width : at / width;
    values[i] = table[static_cast<int64_t>(indices[row]) * width + (at - row * width)];
  }
#pragma unroll
  for (int i = 0; i < kPerThread; ++i)
    if (first + i * kThreads < total) out[first + i * kThreads] = values[i];
}

constexpr int kTile = 64;

/// out[columns, rows] = in[rows, columns]^T, tile by tile, with 16-byte loads and stores.
__global__ void __launch_bounds__(kThreads)
    transpose_kernel(const float* in, int64_t stride, float* out, int64_t rows, int64_t columns) {
  __shared__ float tile[kTile][kTile + 1];
  let_successor_start();
  wait_for_predecessor();
  constexpr int kPasses = kTile * kTile / 4 / kThreads, kLines = kTile / kPasses;
  const int64_t first_row = static_cast<int64_t>(blockIdx.y) * kTile, first_column = int64_t{blockIdx.x} * kTile;
  const int four = threadIdx.x % (kTile / 4) * 4, line = threadIdx.x / (kTile / 4);
  float4 v[kPasses];
#pragma unroll
  for (int i = 0; i < kPasses; ++i) {  // all loads first, so that they overlap
    const int64_t row = first_row + line + kLines * i, column = first_column + four;
    if (row < rows && column < columns) v[i] = *reinterpret_cast<const float4*>(in + row * stride + column);
  }
#pragma unroll
  for (int i = 0; i < kPasses; ++i) {
    const int row = line + kLines * i;
    tile[four][row] = v[i].x, tile[four + 1][row] = v[i].y, tile[four + 2][row] = v[i].z, tile[four + 3][row] = v[i].w;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kPasses; ++i) {
    const int own = line + kLines * i;
    const int64_t column = first_column + own, row = first_row + four;
    const float* values = &tile[own][four];
    if (row < rows && column < columns)
      *reinterpret_cast<float4*>(out + column * rows + row) = make_float4(values[0], values[1], values[2], values[3]);
  }
}

__global__ void increment_kernel(uint64_t* counter, const float* unless) {
  let_successor_start();
  wait_for_predecessor();
  if (!unless || *unless == 0.0f) *counter += 1;
}

template <class T, int kPerThread>
void launch_gather(const KernelLaunch& launch, const float* table, const int32_t* indices, float* out, int64_t rows,
                   int64_t width) {
  const int64_t total = rows * width;
  gather_kernel<T, kPerThread><<<num_blocks(total, kThreads * kPerThread), kThreads, 0, launch.stream>>>(
      reinterpret_cast<const T*>(table), indices, reinterpret_cast<T*>(out), total, static_cast<unsigned>(width));
}

}  // namespace

void launch_bias_relu(const KernelLaunch& launch, float* y, const float* bias, bool relu, uint8_t* mask, int64_t batch,
                      int64_t width) {
  if (batch * width == 0) return;
  const Shape shape = shape_of(batch, width);
  const unsigned blocks = num_blocks(batch * shape.groups_per_row, kThreads / 8);
  auto* kernel = width % 4 == 0 && aligned16(y) ? bias_relu_kernel<true> : bias_relu_kernel<false>;
  kernel<<<blocks, kThreads, 0, launch.stream>>>(y, bias, relu, mask, shape);
  check_launch(launch, "bias_relu_kernel");
}

void launch_dropout(const KernelLaunch& launch, const DenseForward& a) {
  if (a.batch * a.out == 0) return;
  const Dropout& d = a.dropout;
  const DropoutParameters parameters{d.seed,
                                     d.step,
                                     d.row_offset,
                                     static_cast<uint32_t>(d.column_offset / 4),
                                     d.layer,
                                     dropout_keep_threshold(d.p),
                                     static_cast<float>(1.0 / (1.0 - d.p))};
  const Shape shape = shape_of(a.batch, a.out);
  const unsigned blocks = num_blocks(a.batch * shape.groups_per_row, kThreads / 8);
  auto* kernel = a.out % 4 == 0 && aligned16(a.y) ? dropout_kernel<true> : dropout_kernel<false>;
  kernel<<<blocks, kThreads, 0, launch.stream>>>(a.y, a.mask, shape, parameters);
  check_launch(launch, "dropout_kernel");
}

void launch_add(const KernelLaunch& launch, float* destination, const float* source, int64_t n) {
  if (n == 0) return;
  add_kernel<<<streaming_blocks(launch, n), kThreads, 0, launch.stream>>>(destination, source, n);
  check_launch(launch, "add_kernel");
}

void launch_sum_arrays(const KernelLaunch& launch, const SumArrays& a) {
  if (a.n == 0) return;
  sum_arrays_kernel<<<streaming_blocks(launch, a.n), kThreads, 0, launch.stream>>>(a);
  check_launch(launch, "sum_arrays_kernel");
}

void launch_gather_rows(const KernelLaunch& launch, const float* table, const int32_t* indices, float* out,
                        int64_t rows, int64_t width) {
  if (rows * width == 0) return;
  const bool small = rows * width <= static_cast<int64_t>(launch.num_sms) * 2048 * 4;
  if (width % 4 == 0 && aligned16(table) && aligned16(out)) {
    small ? launch_gather<float4, 1>(launch, table, indices, out, rows, width / 4)
          : launch_gather<float4, 4>(launch, table, indices, out, rows, width / 4);
  } else {
    small ? launch_gather<float, 2>(launch, table, indices, out, rows, width)
          : launch_gather<float, 8>(launch, table, indices, out, rows, width);
  }
  check_launch(launch, "gather_kernel");
}

bool transposes(const float* in, int64_t rows, int64_t columns, int64_t stride) {
  return rows % 4 == 0 && columns % 4 == 0 && stride % 4 == 0 && aligned16(in) && rows <= int64_t{kTile} * 65535;
}

void launch_transpose(const KernelLaunch& launch, const float* in, int64_t stride, float* out, int64_t rows,
                      int64_t columns) {
  const dim3 blocks(num_blocks(columns, kTile), num_blocks(rows, kTile));
  launch_early_shared(launch, {blocks, kThreads, 0}, transpose_kernel, "transpose_kernel", in, stride, out, rows,
                      columns);
}

void launch_increment(const KernelLaunch& launch, uint64_t* counter, const float* unless) {
  launch_early(launch, 1, 1, increment_kernel, "increment_kernel", counter, unless);
}

void preload_elementwise(int device_index) {
  preload(device_index, bias_relu_kernel<true>, bias_relu_kernel<false>, dropout_kernel<true>, dropout_kernel<false>,
          add_kernel, sum_arrays_kernel, gather_kernel<float4, 1>, gather_kernel<float4, 4>, gather_kernel<float, 2>,
          gather_kernel<float, 8>, increment_kernel, transpose_kernel);
}

void preload_kernels(int device_index) {
  preload_elementwise(device_index);
  preload_sums(device_index);
  preload_optimizers(device_index);
  preload_peer_updates(device_index);
}

}  // namespace amdahl
