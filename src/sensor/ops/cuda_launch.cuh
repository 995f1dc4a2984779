// Shared by all sensor kernels: launches, conversion of elements to float, packs of elements.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "device/cuda_launch_early.cuh"
#include "sensor/ops/cuda_kernels.h"

namespace amdahl::sensor_cuda {

inline void check_launch(const SensorLaunch& launch, const char* kernel) {
  cuda_check(cudaGetLastError(), launch.device_index, kernel);
}

/// Number of blocks of a grid-stride loop over `work` items with at most `per_sm` blocks per SM.
inline unsigned num_blocks(const SensorLaunch& launch, int64_t work, int threads, int per_sm) {
  const int64_t most = static_cast<int64_t>(launch.num_sms) * per_sm;
  return static_cast<unsigned>(std::clamp<int64_t>((work + threads - 1) / threads, 1, most));
}

__device__ __forceinline__ int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ int64_t thread_count() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

__device__ __forceinline__ float as_float(float value) { return value; }
__device__ __forceinline__ float as_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float as_float(__half value) { return __half2float(value); }
template <class T>
__device__ __forceinline__ T from_float(float value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16_rn(value);
  else if constexpr (std::is_same_v<T, __half>)
    return __float2half_rn(value);
  else
    return value;
}

/// Launches a kernel that may start before its predecessor ends: device/cuda_launch_early.cuh.
template <class... Parameters, class... Arguments>
void launch_early(const SensorLaunch& launch, dim3 blocks, unsigned threads, size_t shared_bytes,
                  void (*kernel)(Parameters...), const char* name, Arguments... arguments) {
  constexpr size_t kAlwaysAllowed = 16 << 10;  // of 48 KiB together with static shared memory
  if (shared_bytes > kAlwaysAllowed)
    cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_bytes)),
               launch.device_index, "cudaFuncSetAttribute");
  launch_on({launch.stream, launch.device_index, launch.limits.early}, {blocks, threads, shared_bytes}, kernel, name,
            arguments...);
}

/// A 32-bit address in shared memory, which the compiler keeps in a register. It recomputes that of a pointer for each
/// access.
__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  auto address = static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
  asm volatile("" : "+r"(address));
  return address;
}
/// Adds to the word at an address in shared memory.
__device__ __forceinline__ void add_at(uint32_t address, uint32_t number) {
  asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(address), "r"(number) : "memory");
}

/// Writes voxels [voxel, voxel + 4) of a grid, except those beyond its end; as one vector if `aligned` to 16 bytes.
template <class Voxel>
__device__ __forceinline__ void write_numbers(const int4& four, Voxel voxel, Voxel num_voxels, bool aligned,
                                              int32_t* grid) {
  if (aligned && voxel + 4 <= num_voxels) {
    __stcs(reinterpret_cast<int4*>(grid + voxel), four);  // evict-first: the L2 then keeps data that is read again
    return;
  }
  const int single[4] = {four.x, four.y, four.z, four.w};
  for (int k = 0; k < 4 && voxel + k < num_voxels; ++k) grid[voxel + k] = single[k];
}
/// As write_numbers, from one byte per voxel.
__device__ __forceinline__ void write_bytes_as_numbers(uint32_t bytes, int64_t voxel, int64_t num_voxels, bool aligned,
                                                       int32_t* grid) {
  write_numbers(make_int4(static_cast<int>(bytes & 255), static_cast<int>(bytes >> 8 & 255),
                          static_cast<int>(bytes >> 16 & 255), static_cast<int>(bytes >> 24)),
                voxel, num_voxels, aligned, grid);
}

/// As write_numbers, from one bit per voxel.
template <class Voxel>
__device__ __forceinline__ void write_bits_as_numbers(uint32_t bits, Voxel voxel, Voxel num_voxels, bool aligned,
                                                      int32_t* grid) {
  write_numbers(make_int4(bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits >> 3 & 1), voxel, num_voxels, aligned, grid);
}

/// N elements, loaded and stored by one instruction.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

/// Copies a pack to shared memory, asynchronously if the hardware supports its size.
template <class T, int N>
__device__ __forceinline__ void copy_async(Pack<T, N>* to, const Pack<T, N>* from) {
  const auto at = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (sizeof(*to) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(from) : "memory");
  else if constexpr (sizeof(*to) >= 4)
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(sizeof(*to)) : "memory");
  else
    *to = *from;
}
/// Waits for all asynchronous copies of this thread.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Calls `work` with a value of the element type.
template <class Work>
void with_type(DType type, const Work& work) {
  if (type == DType::bf16) return work(__nv_bfloat16{});
  if (type == DType::f16) return work(__half{});
  work(float{});
}

/// The largest power of two up to `most` that divides all numbers.
template <class... Numbers>
int64_t common_power(int64_t most, Numbers... numbers) {
  while (most > 1 && (((numbers % most) != 0) || ...)) most /= 2;
  return most;
}

}  // namespace amdahl::sensor_cuda
