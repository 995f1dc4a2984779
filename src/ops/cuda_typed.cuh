// Elements of f32, bf16 and f16 in kernels: loaded and stored in groups of up to 16 bytes, computed on as floats.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <string>
#include <type_traits>

#include "amdahl/tensor.h"

namespace amdahl {

template <class T>
struct ElementType {
  using type = T;
};

/// Calls use(ElementType<T>{}) with the C++ type of `type`.
template <class Use>
void with_element_type(DType type, const Use& use) {
  if (type == DType::f32) return use(ElementType<float>{});
  if (type == DType::bf16) return use(ElementType<__nv_bfloat16>{});
  if (type == DType::f16) return use(ElementType<__half>{});
  throw Error(Cause::internal, "kernels have no elements of " + std::string(to_string(type)), "f32, bf16 or f16");
}

/// Calls use(ElementType<A>{}, ElementType<B>{}) with the C++ types of both; bf16 and f16 do not mix.
template <class Use>
void with_element_types(DType first, DType second, const Use& use) {
  with_element_type(first, [&](auto a) {
    with_element_type(second, [&](auto b) {
      using A = typename decltype(a)::type;
      using B = typename decltype(b)::type;
      if constexpr (std::is_same_v<A, B> || std::is_same_v<A, float> || std::is_same_v<B, float>)
        use(a, b);
      else
        throw Error(Cause::internal, "kernels do not mix bf16 and f16");
    });
  });
}

__device__ __forceinline__ float to_float(float value) { return value; }
__device__ __forceinline__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float to_float(__half value) { return __half2float(value); }

/// Rounded to nearest, ties to even.
template <class T>
__device__ __forceinline__ T to_element(float value) {
  if constexpr (sizeof(T) == 4)
    return value;
  else if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(value);
  else
    return __float2bfloat16_rn(value);
}

template <int kCount>
struct Floats {
  float v[kCount];
};

/// kCount neighbouring elements. Their address is a multiple of their bytes, or of 16 if they are more.
template <class T, int kCount>
struct Elements {
  static constexpr int kBytes = kCount * static_cast<int>(sizeof(T));
  static constexpr int kAlign = kBytes < 16 ? kBytes : 16;
  alignas(kAlign) T e[kCount];
};

template <int kCount, class T>
__device__ __forceinline__ Elements<T, kCount> load_elements(const T* pointer) {
  using Group = Elements<T, kCount>;
  Group group;
  if constexpr (Group::kBytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < Group::kBytes / 16; ++i)
      reinterpret_cast<uint4*>(group.e)[i] = reinterpret_cast<const uint4*>(pointer)[i];
  } else if constexpr (Group::kBytes == 8) {
    *reinterpret_cast<uint2*>(group.e) = *reinterpret_cast<const uint2*>(pointer);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) group.e[i] = pointer[i];
  }
  return group;
}

template <int kCount, class T>
__device__ __forceinline__ void store_elements(T* pointer, const Elements<T, kCount>& group) {
  using Group = Elements<T, kCount>;
  if constexpr (Group::kBytes % 16 == 0) {
#pragma unroll
    for (int i = 0; i < Group::kBytes / 16; ++i)
      reinterpret_cast<uint4*>(pointer)[i] = reinterpret_cast<const uint4*>(group.e)[i];
  } else if constexpr (Group::kBytes == 8) {
    *reinterpret_cast<uint2*>(pointer) = *reinterpret_cast<const uint2*>(group.e);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) pointer[i] = group.e[i];
  }
}

template <class T, int kCount>
__device__ __forceinline__ Floats<kCount> to_floats(const Elements<T, kCount>& group) {
  Floats<kCount> floats;
#pragma unroll
  for (int i = 0; i < kCount; ++i) floats.v[i] = to_float(group.e[i]);
  return floats;
}

template <int kCount, class T>
__device__ __forceinline__ Floats<kCount> load_floats(const T* pointer) {
  return to_floats(load_elements<kCount>(pointer));
}

template <int kCount, class T>
__device__ __forceinline__ void store_floats(T* pointer, const Floats<kCount>& floats) {
  Elements<T, kCount> group;
  if constexpr (kCount % 2 == 0 && std::is_same_v<T, __nv_bfloat16>) {  // one instruction rounds two
#pragma unroll
    for (int i = 0; i < kCount; i += 2)
      *reinterpret_cast<__nv_bfloat162*>(&group.e[i]) = __floats2bfloat162_rn(floats.v[i], floats.v[i + 1]);
  } else if constexpr (kCount % 2 == 0 && std::is_same_v<T, __half>) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2)
      *reinterpret_cast<__half2*>(&group.e[i]) = __floats2half2_rn(floats.v[i], floats.v[i + 1]);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) group.e[i] = to_element<T>(floats.v[i]);
  }
  store_elements<kCount>(pointer, group);
}

}  // namespace amdahl
