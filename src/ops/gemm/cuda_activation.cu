// Activations between two products, gated or not, and their gradients.
#include "ops/cuda_gelu.cuh"
#include "ops/cuda_launch.cuh"
#include "ops/cuda_typed.cuh"
#include "ops/gemm/cuda_matmul.h"

namespace amdahl {
namespace {

constexpr int kGroup = 8;  // elements per access: 16 bytes of a 16-bit type

/// Value and derivative.
template <HiddenActivation kKind>
__device__ __forceinline__ Gelu act(float x) {
  if constexpr (kKind == HiddenActivation::gelu) return gelu_of(x);
  if constexpr (kKind == HiddenActivation::exact_gelu) return exact_gelu_of(x);
  const float e = __expf(-fabsf(x)), large = 1.0f / (1.0f + e), small = e * large;  // sigmoid(|x|), 1 - sigmoid(|x|)
  const float sigmoid = x < 0.0f ? small : large, product = large * small;
  return {x * sigmoid, sigmoid + (product == 0.0f ? 0.0f : x * product)};
}

template <class T, HiddenActivation kKind, bool kGated, int kVec>
__global__ void __launch_bounds__(kThreads) activate_kernel(Activate a) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t per_row = a.width / kVec, groups = a.rows * per_row;
  for (int64_t i = thread_index(); i < groups; i += thread_count()) {
    const int64_t row = i / per_row, column = i % per_row * kVec;
    const T* const x = static_cast<const T*>(a.x) + row * a.width * (kGated ? 2 : 1) + column;
    Floats<kVec> value = load_floats<kVec>(x), factor;
    if constexpr (kGated) factor = load_floats<kVec>(x + a.width);
#pragma unroll
    for (int j = 0; j < kVec; ++j) value.v[j] = act<kKind>(value.v[j]).value * (kGated ? factor.v[j] : 1.0f);
    store_floats(static_cast<T*>(a.y) + row * a.width + column, value);
  }
}

template <class T, HiddenActivation kKind, bool kGated, int kVec>
__global__ void __launch_bounds__(kThreads) activate_gradient_kernel(ActivateGradient a) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t per_row = a.width / kVec, groups = a.rows * per_row;
  for (int64_t i = thread_index(); i < groups; i += thread_count()) {
    const int64_t row = i / per_row, column = i % per_row * kVec, at = row * a.width * (kGated ? 2 : 1) + column;
    const T* const x = static_cast<const T*>(a.x) + at;
    T* const d_x = static_cast<T*>(a.d_x) + at;
    Floats<kVec> gate = load_floats<kVec>(x), factor;
    if constexpr (kGated) factor = load_floats<kVec>(x + a.width);
    const Floats<kVec> d = load_floats<kVec>(static_cast<const T*>(a.d_y) + row * a.width + column);
#pragma unroll
    for (int j = 0; j < kVec; ++j) {
      const Gelu both = act<kKind>(gate.v[j]);
      gate.v[j] = d.v[j] * both.derivative * (kGated ? factor.v[j] : 1.0f);
      if constexpr (kGated) factor.v[j] = d.v[j] * both.value;
    }
    store_floats(d_x, gate);
    if constexpr (kGated) store_floats(d_x + a.width, factor);
  }
}

/// Calls use(ElementType, kind, gated, elements per access) with all four as constants.
template <class Call, class Use>
void with_activation(const Call& a, std::initializer_list<const void*> pointers, const Use& use) {
  const bool vector = a.width % kGroup == 0 && std::all_of(pointers.begin(), pointers.end(), aligned16);
  const auto with = [](bool value, const auto& next) { value ? next(std::true_type{}) : next(std::false_type{}); };
  const auto with_kind = [&](auto kind) {
    if (a.kind != decltype(kind)::value) return;
    with_element_type(a.type, [&](auto element) {
      with(a.gated, [&](auto gated) {
        with(vector, [&](auto grouped) {
          use(element, kind, gated, std::integral_constant < int, decltype(grouped)::value ? kGroup : 1 > {});
        });
      });
    });
  };
  with_kind(std::integral_constant<HiddenActivation, HiddenActivation::gelu>{});
  with_kind(std::integral_constant<HiddenActivation, HiddenActivation::silu>{});
  with_kind(std::integral_constant<HiddenActivation, HiddenActivation::exact_gelu>{});
}

}  // namespace

void launch_activate(const KernelLaunch& launch, const Activate& a) {
  if (a.rows * a.width == 0) return;
  with_activation(a, {a.x, a.y}, [&](auto element, auto kind, auto gated, auto vec) {
    using T = typename decltype(element)::type;
    launch_early(launch, streaming_blocks(launch, a.rows * a.width / vec), kThreads,
                 activate_kernel<T, kind, gated, vec>, "activate_kernel", a);
  });
}

void launch_activate_gradient(const KernelLaunch& launch, const ActivateGradient& a) {
  if (a.rows * a.width == 0) return;
  with_activation(a, {a.x, a.d_y, a.d_x}, [&](auto element, auto kind, auto gated, auto vec) {
    using T = typename decltype(element)::type;
    launch_early(launch, streaming_blocks(launch, a.rows * a.width / vec), kThreads,
                 activate_gradient_kernel<T, kind, gated, vec>, "activate_gradient_kernel", a);
  });
}

}  // namespace amdahl
