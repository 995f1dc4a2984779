// What persistent recurrent kernels and GEMMs read and write in different orders.
#include "ops/cuda_launch.cuh"
#include "ops/cuda_typed.cuh"
#include "ops/recurrent/cuda_recurrent.h"
#include "ops/recurrent/cuda_recurrent_cell.cuh"

namespace amdahl {
namespace {

constexpr int kInputGroup = 4;  // columns per thread

template <class T>
__global__ void __launch_bounds__(kThreads)
    take_inputs_kernel(const float* x, int64_t rows, int input, T* operands, int first, int width) {
  constexpr int kGroups = kMostInputs / kInputGroup;
  let_successor_start();
  wait_for_predecessor();
  for (int64_t i = thread_index(); i < rows * kGroups; i += thread_count()) {
    const int64_t row = i / kGroups;
    const int column = static_cast<int>(i % kGroups) * kInputGroup;
    Floats<kInputGroup> values;
#pragma unroll
    for (int j = 0; j < kInputGroup; ++j) values.v[j] = column + j < input ? x[row * input + column + j] : 0.0f;
    store_floats(operands + row * width + first + column, values);
  }
}

/// The gate of a weight whose gradient is number `d` of a unit; negative: none. Of GRU's n, the recurrent part comes
/// before the part of the inputs.
__device__ __forceinline__ int input_gate(bool lstm, int d) { return lstm || d < 2 ? d : d == 3 ? 2 : -1; }
__device__ __forceinline__ int hidden_gate(bool lstm, int d) { return lstm || d < 3 ? d : -1; }

template <class T>
__global__ void __launch_bounds__(kThreads)
    order_weights_kernel(bool lstm, const float* w_input, int hidden, int units, int input, T* out) {
  let_successor_start();
  wait_for_predecessor();
  const int64_t count = static_cast<int64_t>(4) * units * input;
  for (int64_t i = thread_index(); i < count; i += thread_count()) {
    const int64_t row = i / input;
    const int unit = static_cast<int>(row / 4), gate = input_gate(lstm, static_cast<int>(row % 4));
    float value = 0.0f;
    if (gate >= 0 && unit < hidden) value = w_input[(static_cast<int64_t>(gate) * hidden + unit) * input + i % input];
    out[i] = to_element<T>(value);
  }
}

__global__ void __launch_bounds__(kThreads) take_gradients_kernel(OrderedGradients a) {
  let_successor_start();
  wait_for_predecessor();
  const bool lstm = a.cell == RecurrentCell::lstm;
  const int columns = a.hidden + a.input;
  const int64_t count = static_cast<int64_t>(4) * a.hidden * columns;
  for (int64_t i = thread_index(); i < count; i += thread_count()) {
    const int64_t row = i / columns;
    const int column = static_cast<int>(i % columns), unit = static_cast<int>(row / 4), d = static_cast<int>(row % 4);
    const bool of_input = column >= a.hidden;
    const int gate = of_input ? input_gate(lstm, d) : hidden_gate(lstm, d);
    if (gate < 0) continue;
    const int64_t to_row = static_cast<int64_t>(gate) * a.hidden + unit;
    const float value = of_input ? a.from_input[row * a.stride_input + column - a.hidden]
                                 : a.from_hidden[row * a.stride_hidden + column];
    float* const to =
        of_input ? a.w_input + to_row * a.input + column - a.hidden : a.w_hidden + to_row * a.hidden + column;
    *to = value + (a.accumulate ? *to : 0.0f);
  }
}

}  // namespace

void launch_take_inputs(const KernelLaunch& launch, const float* x, int64_t rows, int input,
                        const PersistentSizes& sizes, void* operands, DType type) {
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    launch_early(launch, streaming_blocks(launch, rows * (kMostInputs / kInputGroup)), kThreads, take_inputs_kernel<T>,
                 "take_inputs_kernel", x, rows, input, static_cast<T*>(operands), 8 * sizes.groups, sizes.width);
  });
}

void launch_order_weights(const KernelLaunch& launch, RecurrentCell cell, const float* w_input, int hidden, int units,
                          int input, void* out, DType type) {
  with_element_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    launch_early(launch, streaming_blocks(launch, int64_t{4} * units * input), kThreads, order_weights_kernel<T>,
                 "order_weights_kernel", cell == RecurrentCell::lstm, w_input, hidden, units, input,
                 static_cast<T*>(out));
  });
}

void launch_take_gradients(const KernelLaunch& launch, const OrderedGradients& a) {
  launch_early(launch, streaming_blocks(launch, int64_t{4} * a.hidden * (a.hidden + a.input)), kThreads,
               take_gradients_kernel, "take_gradients_kernel", a);
}

void preload_recurrent_order(int device_index) {
  preload(device_index, take_inputs_kernel<float>, take_inputs_kernel<__nv_bfloat16>, order_weights_kernel<float>,
          order_weights_kernel<__nv_bfloat16>, take_gradients_kernel);
}

}  // namespace amdahl
