// Average pooling of images, and additions of gradients of different types.
#include "ops/conv/cuda_conv.h"
#include "ops/cuda_launch.cuh"
#include "ops/cuda_typed.cuh"

namespace amdahl {
namespace {

constexpr int kGroup = 8;  // elements per access: 16 bytes of a 16-bit type

/// A thread has kVec neighbouring channels of one row.
template <class X, int kVec>
__global__ void __launch_bounds__(kThreads)
    average_pool_kernel(const X* x, float* y, int64_t rows, int64_t pixels, int64_t channels) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t groups = channels / kVec, i = thread_index();
  if (i >= rows * groups) return;
  const int64_t row = i / groups, column = i % groups * kVec;
  const X* from = x + row * pixels * channels + column;
  Floats<kVec> sum = {};
#pragma unroll 4
  for (int64_t p = 0; p < pixels; ++p) {
    const Floats<kVec> value = load_floats<kVec>(from + p * channels);
#pragma unroll
    for (int k = 0; k < kVec; ++k) sum.v[k] += value.v[k];
  }
  const float share = 1.0f / static_cast<float>(pixels);
#pragma unroll
  for (int k = 0; k < kVec; ++k) sum.v[k] *= share;
  store_floats(y + row * channels + column, sum);
}

/// A thread has kVec neighbouring channels of some pixels.
template <class X, int kVec>
__global__ void __launch_bounds__(kThreads)
    average_pool_gradient_kernel(const float* dy, X* dx, int64_t rows, int64_t pixels, int64_t channels) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t groups = channels / kVec;
  const float share = 1.0f / static_cast<float>(pixels);
  for (int64_t i = thread_index(); i < rows * pixels * groups; i += thread_count()) {
    const int64_t row = i / (pixels * groups), column = i % groups * kVec;
    Floats<kVec> value = load_floats<kVec>(dy + row * channels + column);
#pragma unroll
    for (int k = 0; k < kVec; ++k) value.v[k] *= share;
    store_floats(dx + i * kVec, value);
  }
}

template <class From, class To, int kVec>
__global__ void __launch_bounds__(kThreads)
    copy_or_add_kernel(const From* from, To* to, int64_t count, bool accumulate) {
  let_successor_start();
  wait_for_predecessor();
  for (int64_t i = thread_index() * kVec; i < count; i += thread_count() * kVec) {
    Floats<kVec> value = load_floats<kVec>(from + i);
    if (accumulate) {
      const Floats<kVec> before = load_floats<kVec>(to + i);
#pragma unroll
      for (int k = 0; k < kVec; ++k) value.v[k] += before.v[k];
    }
    store_floats(to + i, value);
  }
}

bool in_groups(int64_t count, const void* a, const void* b) {
  return count % kGroup == 0 && aligned16(a) && aligned16(b);
}

}  // namespace

void launch_average_pool(const KernelLaunch& launch, const void* x, float* y, int64_t rows, int64_t pixels,
                         int64_t channels, DType type) {
  if (rows * channels == 0) return;
  const bool groups = in_groups(channels, x, y);
  with_element_type(type, [&](auto element) {
    using X = typename decltype(element)::type;
    launch_early(launch, num_blocks(rows * channels / (groups ? kGroup : 1), kThreads), kThreads,
                 groups ? average_pool_kernel<X, kGroup> : average_pool_kernel<X, 1>, "average_pool_kernel",
                 static_cast<const X*>(x), y, rows, pixels, channels);
  });
}

void launch_average_pool_gradient(const KernelLaunch& launch, const float* dy, void* dx, int64_t rows, int64_t pixels,
                                  int64_t channels, DType type) {
  const int64_t count = rows * pixels * channels;
  if (count == 0) return;
  const bool groups = in_groups(channels, dy, dx);
  with_element_type(type, [&](auto element) {
    using X = typename decltype(element)::type;
    launch_early(launch, streaming_blocks(launch, count / (groups ? kGroup : 1)), kThreads,
                 groups ? average_pool_gradient_kernel<X, kGroup> : average_pool_gradient_kernel<X, 1>,
                 "average_pool_gradient_kernel", dy, static_cast<X*>(dx), rows, pixels, channels);
  });
}

void launch_copy_or_add(const KernelLaunch& launch, const void* from, DType from_type, void* to, DType to_type,
                        int64_t count, bool accumulate) {
  if (count == 0) return;
  const bool groups = in_groups(count, from, to);
  with_element_types(from_type, to_type, [&](auto source, auto target) {
    using From = typename decltype(source)::type;
    using To = typename decltype(target)::type;
    launch_early(launch, streaming_blocks(launch, count / (groups ? kGroup : 1)), kThreads,
                 groups ? copy_or_add_kernel<From, To, kGroup> : copy_or_add_kernel<From, To, 1>, "copy_or_add_kernel",
                 static_cast<const From*>(from), static_cast<To*>(to), count, accumulate);
  });
}

}  // namespace amdahl
