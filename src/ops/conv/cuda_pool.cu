// Pooling of images, and additions of gradients of different types.
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

/// PoolWindows with what follows from them, for device code.
struct Windows {
  explicit Windows(const PoolWindows& w)
      : rows(w.rows),
        height(w.height),
        width(w.width),
        channels(w.channels),
        kernel(w.kernel),
        stride(w.stride),
        padding(w.padding()),
        out_height(w.out_height()),
        out_width(w.out_width()) {}
  int64_t rows, height, width, channels, kernel, stride, padding, out_height, out_width;
};

template <int kVec>
struct alignas(kVec) Places {
  uint8_t of[kVec];
};

/// A thread has kVec neighbouring channels of some windows.
template <class X, class Y, int kVec>
__global__ void __launch_bounds__(kThreads) max_pool_kernel(Windows w, const X* x, Y* y, uint8_t* chosen) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t groups = w.channels / kVec, width = w.out_width, pixels = w.out_height * width;
  for (int64_t i = thread_index(); i < w.rows * pixels * groups; i += thread_count()) {
    const int64_t channel = i % groups * kVec, window = i / groups, row = window / pixels, pixel = window % pixels;
    const int64_t top = pixel / width * w.stride - w.padding, left = pixel % width * w.stride - w.padding;
    Floats<kVec> best = {};
    Places<kVec> places = {};
    bool begun = false;
    for (int64_t a = max(int64_t{0}, -top); a < min(w.kernel, w.height - top); ++a)
      for (int64_t b = max(int64_t{0}, -left); b < min(w.kernel, w.width - left); ++b) {
        const int64_t from = ((row * w.height + top + a) * w.width + left + b) * w.channels + channel;
        const Floats<kVec> value = load_floats<kVec>(x + from);
#pragma unroll
        for (int k = 0; k < kVec; ++k)
          if (!begun || value.v[k] > best.v[k] || value.v[k] != value.v[k]) {
            best.v[k] = value.v[k];
            places.of[k] = static_cast<uint8_t>(a * w.kernel + b);
          }
        begun = true;
      }
    store_floats(y + i * kVec, best);
    *reinterpret_cast<Places<kVec>*>(chosen + i * kVec) = places;
  }
}

/// A thread has kVec neighbouring channels of some pixels, and adds up what the windows around a pixel pass to it.
template <class X, class Y, int kVec>
__global__ void __launch_bounds__(kThreads)
    max_pool_gradient_kernel(Windows w, const Y* dy, const Y* dy_added, const uint8_t* chosen, X* dx) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t groups = w.channels / kVec, pixels = w.height * w.width, padding = w.padding;
  for (int64_t i = thread_index(); i < w.rows * pixels * groups; i += thread_count()) {
    const int64_t channel = i % groups * kVec, place = i / groups, row = place / pixels, pixel = place % pixels;
    const int64_t y = pixel / w.width + padding, x = pixel % w.width + padding;  // in the padded image
    // The first window that ends at or after the pixel, to the last one that begins at or before it.
    const int64_t top = (max(y - w.kernel + 1, int64_t{0}) + w.stride - 1) / w.stride;
    const int64_t left = (max(x - w.kernel + 1, int64_t{0}) + w.stride - 1) / w.stride;
    Floats<kVec> sum = {};
    for (int64_t a = top; a <= min(y / w.stride, w.out_height - 1); ++a)
      for (int64_t b = left; b <= min(x / w.stride, w.out_width - 1); ++b) {
        const int64_t from = ((row * w.out_height + a) * w.out_width + b) * w.channels + channel;
        const auto here = static_cast<uint8_t>((y - a * w.stride) * w.kernel + x - b * w.stride);
        const Places<kVec> places = *reinterpret_cast<const Places<kVec>*>(chosen + from);
        Floats<kVec> passed = load_floats<kVec>(dy + from);
        if (dy_added) {
          const Floats<kVec> more = load_floats<kVec>(dy_added + from);
#pragma unroll
          for (int k = 0; k < kVec; ++k) passed.v[k] += more.v[k];
        }
#pragma unroll
        for (int k = 0; k < kVec; ++k) sum.v[k] += places.of[k] == here ? passed.v[k] : 0.0f;
      }
    store_floats(dx + i * kVec, sum);
  }
}

}  // namespace

void launch_max_pool(const KernelLaunch& launch, const MaxPoolForward& a) {
  const PoolWindows& w = a.windows;
  if (w.outputs() == 0) return;
  const bool groups = in_groups(w.channels, a.x, a.y);
  with_element_types(a.type, a.y_type, [&](auto source, auto target) {
    using X = typename decltype(source)::type;
    using Y = typename decltype(target)::type;
    launch_early(launch, streaming_blocks(launch, w.outputs() / (groups ? kGroup : 1)), kThreads,
                 groups ? max_pool_kernel<X, Y, kGroup> : max_pool_kernel<X, Y, 1>, "max_pool_kernel", Windows(w),
                 static_cast<const X*>(a.x), static_cast<Y*>(a.y), a.chosen);
  });
}

void launch_max_pool_gradient(const KernelLaunch& launch, const MaxPoolBackward& a) {
  const PoolWindows& w = a.windows;
  if (w.inputs() == 0) return;
  const bool groups = in_groups(w.channels, a.dy, a.dx) && (!a.dy_added || aligned16(a.dy_added));
  with_element_types(a.type, a.y_type, [&](auto source, auto target) {
    using X = typename decltype(source)::type;
    using Y = typename decltype(target)::type;
    launch_early(launch, streaming_blocks(launch, w.inputs() / (groups ? kGroup : 1)), kThreads,
                 groups ? max_pool_gradient_kernel<X, Y, kGroup> : max_pool_gradient_kernel<X, Y, 1>,
                 "max_pool_gradient_kernel", Windows(w), static_cast<const Y*>(a.dy), static_cast<const Y*>(a.dy_added),
                 a.chosen, static_cast<X*>(a.dx));
  });
}

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
