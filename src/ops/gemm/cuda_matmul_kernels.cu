// Kernels around the GEMMs of typed matrices.
#include "ops/cuda_gelu.cuh"
#include "ops/gemm/cuda_column_pass.cuh"
#include "ops/gemm/cuda_matmul.h"

namespace amdahl {
namespace {

constexpr int kGroup = 8;  // elements per thread: 16 bytes of a 16-bit type

template <class T, int kVec_>
struct SumPass {
  static constexpr int kVec = kVec_;
  using Loaded = Elements<T, kVec>;
  const T* x;
  int64_t batch_stride, stride;
  __device__ __forceinline__ Loaded load(int64_t batch, int64_t row, int64_t column) const {
    return load_elements<kVec>(x + batch * batch_stride + row * stride + column);
  }
  __device__ __forceinline__ Floats<kVec> finish(int64_t, int64_t, int64_t, const Loaded& loaded) const {
    return to_floats(loaded);
  }
};

template <class T, class C, int kVec_>
struct GeluGradientPass {
  static constexpr int kVec = kVec_;
  struct Loaded {
    Elements<C, kVec> c;
    Elements<T, kVec> aux;
  };
  C* c;
  const T* aux;
  int64_t stride, width;
  __device__ __forceinline__ Loaded load(int64_t, int64_t row, int64_t column) const {
    return {load_elements<kVec>(c + row * stride + column), load_elements<kVec>(aux + row * width + column)};
  }
  __device__ __forceinline__ Floats<kVec> finish(int64_t, int64_t row, int64_t column, const Loaded& loaded) const {
    Floats<kVec> value = to_floats(loaded.c);
    const Floats<kVec> input = to_floats(loaded.aux);
#pragma unroll
    for (int i = 0; i < kVec; ++i) value.v[i] *= gelu_of(input.v[i]).derivative;
    store_floats(c + row * stride + column, value);
    return value;
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) convert_kernel(const float* from, T* to, int64_t count, bool aligned) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t groups = aligned ? count / kGroup : 0;
  for (int64_t i = thread_index(); i < groups; i += thread_count())
    store_floats(to + i * kGroup, load_floats<kGroup>(from + i * kGroup));
  for (int64_t i = groups * kGroup + thread_index(); i < count; i += thread_count()) to[i] = to_element<T>(from[i]);
}

/// Rows and groups of kVec columns. One 32-bit division gives the row where the groups are fewer than 2^32.
struct GroupPlace {
  int64_t row, column;
};
template <int kVec>
__device__ __forceinline__ GroupPlace group_place(int64_t index, int64_t groups_per_row, int64_t groups) {
  const int64_t row = groups <= UINT32_MAX ? static_cast<unsigned>(index) / static_cast<unsigned>(groups_per_row)
                                           : index / groups_per_row;
  return {row, (index - row * groups_per_row) * kVec};
}

template <class T, class C, int kVec, bool kGelu>
__global__ void __launch_bounds__(kThreads)
    bias_kernel(C* c, T* aux, const T* bias, int64_t rows, int64_t width, int64_t stride) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t groups_per_row = width / kVec, groups = rows * groups_per_row;
  for (int64_t i = thread_index(); i < groups; i += thread_count()) {
    const GroupPlace at = group_place<kVec>(i, groups_per_row, groups);
    C* own = c + at.row * stride + at.column;
    const Floats<kVec> add = load_floats<kVec>(bias + at.column);
    Floats<kVec> value;
    if constexpr (kGelu)
      value = load_floats<kVec>(aux + at.row * width + at.column);
    else
      value = load_floats<kVec>(own);
#pragma unroll
    for (int j = 0; j < kVec; ++j) value.v[j] += add.v[j];
    if constexpr (kGelu) {
      store_floats(aux + at.row * width + at.column, value);
#pragma unroll
      for (int j = 0; j < kVec; ++j) value.v[j] = gelu_of(value.v[j]).value;
    }
    store_floats(own, value);
  }
}

/// Calls use(ElementType<T>{}, ElementType<C>{}) for T of `type` and C of `c_type`, which is `type` or f32.
template <class Use>
void with_product_types(DType type, DType c_type, const Use& use) {
  with_element_type(type, [&](auto element) {
    if (c_type == DType::f32) return use(element, ElementType<float>{});
    if (c_type == type) return use(element, element);
    throw Error(Cause::internal, "the product of a GEMM has the operands' type or f32");
  });
}

bool vectorises(const ProductEpilogue& a) {
  return a.width % kGroup == 0 && a.stride % kGroup == 0 && aligned16(a.c) && aligned16(a.aux) && aligned16(a.bias);
}

template <bool kGelu>
void launch_bias_pass(const KernelLaunch& launch, const ProductEpilogue& a, const char* name) {
  if (a.rows * a.width == 0) return;
  with_product_types(a.type, a.c_type, [&](auto element, auto product) {
    using T = typename decltype(element)::type;
    using C = typename decltype(product)::type;
    const bool vector = vectorises(a);
    auto* kernel = vector ? bias_kernel<T, C, kGroup, kGelu> : bias_kernel<T, C, 1, kGelu>;
    launch_early(launch, streaming_blocks(launch, a.rows * a.width / (vector ? kGroup : 1)), kThreads, kernel, name,
                 static_cast<C*>(a.c), static_cast<T*>(a.aux), static_cast<const T*>(a.bias), a.rows, a.width,
                 a.stride);
  });
}

constexpr int64_t kMostBatches = 65535;  // of one grid

template <class T, int kVec>
void sum_columns(const KernelLaunch& launch, const ColumnSums& a, int64_t stride) {
  for (int64_t first = 0; first < a.batches; first += kMostBatches) {
    const SumPass<T, kVec> pass{static_cast<const T*>(a.x) + first * a.rows * stride, a.rows * stride, stride};
    const int64_t out_stride = a.out_stride ? a.out_stride : a.width;
    const ColumnGrid grid{.out = a.out + first * out_stride,
                          .rows = a.rows,
                          .width = a.width,
                          .out_stride = out_stride,
                          .scale = a.scale,
                          .accumulate = a.accumulate};
    launch_column_pass(launch, pass, grid, std::min(kMostBatches, a.batches - first), "column_sums");
  }
}

}  // namespace

void launch_column_sums(const KernelLaunch& launch, const ColumnSums& a) {
  if (a.width * a.batches == 0) return;
  const int64_t stride = a.stride ? a.stride : a.width;
  with_element_type(a.type, [&](auto element) {
    using T = typename decltype(element)::type;
    constexpr int kVec = 16 / static_cast<int>(sizeof(T));
    if (a.width % kVec == 0 && stride % kVec == 0 && aligned16(a.x)) return sum_columns<T, kVec>(launch, a, stride);
    sum_columns<T, 1>(launch, a, stride);
  });
}

void launch_convert(const KernelLaunch& launch, const float* from, void* to, DType type, int64_t count) {
  if (count == 0) return;
  const bool aligned = aligned16(from) && aligned16(to);
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    launch_early(launch, streaming_blocks(launch, aligned ? count / kGroup : count), kThreads, convert_kernel<T>,
                 "convert_kernel", from, static_cast<T*>(to), count, aligned);
  });
}

void launch_bias(const KernelLaunch& launch, const ProductEpilogue& a) {
  launch_bias_pass<false>(launch, a, "bias_kernel");
}

void launch_bias_gelu(const KernelLaunch& launch, const ProductEpilogue& a) {
  launch_bias_pass<true>(launch, a, "bias_gelu_kernel");
}

void launch_gelu_gradient(const KernelLaunch& launch, const ProductEpilogue& a) {
  if (a.rows * a.width == 0) return;
  with_product_types(a.type, a.c_type, [&](auto element, auto product) {
    using T = typename decltype(element)::type;
    using C = typename decltype(product)::type;
    const ColumnGrid grid{
        .out = a.dbias, .rows = a.rows, .width = a.width, .scale = 1.0f, .accumulate = a.accumulate_dbias};
    constexpr int kVec = 16 / static_cast<int>(sizeof(C));
    if (vectorises(a))
      return launch_column_pass(
          launch, GeluGradientPass<T, C, kVec>{static_cast<C*>(a.c), static_cast<const T*>(a.aux), a.stride, a.width},
          grid, 1, "gelu_gradient");
    launch_column_pass(launch,
                       GeluGradientPass<T, C, 1>{static_cast<C*>(a.c), static_cast<const T*>(a.aux), a.stride, a.width},
                       grid, 1, "gelu_gradient");
  });
}

}  // namespace amdahl
