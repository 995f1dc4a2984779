// Arrays are time-major, rows [step, batch]: activations of the gates here, c (LSTM) or the recurrent part of the
// candidate (GRU) of the units here, and h of all units.
#include "ops/recurrent/cpu_recurrent_shards.h"

#include <algorithm>
#include <cstring>

#include "device/cpu_device.h"
#include "ops/cpu_ops.h"
#include "ops/gemm/cpu_gemm.h"
#include "ops/recurrent/flush_denormals.h"

namespace amdahl {
namespace {

/// Where the arrays of a shard's saved memory are.
struct ShardRows {
  explicit ShardRows(const RecurrentShard& a)
      : batch(a.shape.batch),
        rows(a.shape.steps * a.shape.batch),
        held(a.held),
        hidden(a.shape.hidden),
        gates(num_gates(a.shape.cell) * a.held),
        data(static_cast<float*>(a.saved)) {}
  float* gates_of(int64_t t) const { return data + t * batch * gates; }
  float* cell_of(int64_t t) const { return data + rows * gates + t * batch * held; }
  float* states_of(int64_t t) const { return data + rows * (gates + held) + t * batch * hidden; }
  int64_t batch, rows, held, hidden, gates;
  float* data;
};

/// A row of zeros for each gate, in slot 1 of the stream.
CellRows<const float> zero_row(CpuStream& worker, int64_t floats) {
  auto* const zeros = static_cast<float*>(worker.scratch(1, static_cast<size_t>(floats) * sizeof(float)));
  std::fill_n(zeros, floats, 0.0f);
  return {zeros, 0};
}

/// Row b of step t of x or dx.
CpuMatrix input_of_step(const RecurrentShard& a, const float* x, int64_t t) {
  return {x + t * a.shape.input, a.shape.steps * a.shape.input};
}

class CpuRecurrentShards final : public RecurrentShardOps {
 public:
  explicit CpuRecurrentShards(const CpuRecurrentKernels& kernels) : kernels_(kernels) {}

  bool takes(DType type) const override { return type == DType::f32; }
  int64_t saved_bytes(const RecurrentShard& a) const override { return cpu_saved_bytes(a); }
  void begin(Stream& stream, const RecurrentShard& a) override {
    require_f32(a.shape.type, "recurrent layers");
    as_cpu(stream).enqueue([a] {
      const ShardRows rows(a);
      for (int64_t t = 0; t < a.shape.steps; ++t)
        multiply('N', 'T', rows.batch, rows.gates, a.shape.input, input_of_step(a, a.x, t),
                 {a.weights.w_input, a.shape.input}, rows.gates_of(t), rows.gates, false);
    });
  }
  void step(Stream& stream, const RecurrentShard& a, int64_t t, float* mine) override {
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a, t, mine] { forward_step(worker, a, t, mine); });
  }
  void take_states(Stream& stream, const RecurrentShard& a, int64_t t, const float* all, float* y) override {
    as_cpu(stream).enqueue([a, t, all, y] {
      const ShardRows rows(a);
      const bool is_output = !a.shape.last_step_only || t + 1 == a.shape.steps;
      float* const first = a.shape.last_step_only ? y : y + t * rows.hidden;
      const int64_t stride = a.shape.last_step_only ? rows.hidden : a.shape.steps * rows.hidden;
      const auto bytes = static_cast<size_t>(rows.held) * sizeof(float);
      for (int64_t rank = 0; rank * rows.held < rows.hidden; ++rank)
        for (int64_t b = 0; b < rows.batch; ++b) {
          const float* const from = all + (rank * rows.batch + b) * rows.held;
          std::memcpy(rows.states_of(t) + b * rows.hidden + rank * rows.held, from, bytes);
          if (is_output) std::memcpy(first + b * stride + rank * rows.held, from, bytes);
        }
    });
  }
  void step_gradients(Stream& stream, const RecurrentShard& a, int64_t t, const float* dy, const Work& work) override {
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a, t, dy, work] {
      const FlushDenormals here;
      backward_step(worker, a, t, dy, work);
    });
  }
  void finish_gradients(Stream& stream, const RecurrentShard& a, const Work& work,
                        const RecurrentWeights<float>& gradients, float* dx, bool accumulate) override {
    as_cpu(stream).enqueue([a, work, gradients, dx, accumulate] {
      const FlushDenormals here;
      weight_gradients(a, work, gradients, accumulate);
      bias_gradients(a, work, gradients, accumulate);
      if (dx) input_gradient(a, work, dx);
    });
  }

 private:
  void forward_step(CpuStream& worker, const RecurrentShard& a, int64_t t, float* mine) const {
    const ShardRows rows(a);
    const CellRows<const float> zeros = zero_row(worker, rows.gates);
    const bool lstm = a.shape.cell == RecurrentCell::lstm;
    float* const recurrent =
        lstm ? rows.gates_of(t)
             : static_cast<float*>(worker.scratch(0, static_cast<size_t>(rows.batch * rows.gates) * sizeof(float)));
    if (t > 0)
      multiply('N', 'T', rows.batch, rows.gates, rows.hidden, {rows.states_of(t - 1), rows.hidden},
               {a.weights.w_hidden, rows.hidden}, recurrent, rows.gates, lstm);
    const CellRows<float> gates{rows.gates_of(t), rows.gates}, cell{rows.cell_of(t), rows.held}, h{mine, rows.held};
    if (lstm) {
      const CellRows<const float> c_before = t > 0 ? CellRows<const float>{rows.cell_of(t - 1), rows.held} : zeros;
      return kernels_.lstm_forward(
          {rows.batch, rows.held, a.weights.b_input, a.weights.b_hidden, gates, c_before, cell, h, {nullptr, 0}});
    }
    kernels_.gru_forward({rows.batch,
                          rows.held,
                          a.weights.b_input,
                          a.weights.b_hidden,
                          gates,
                          t > 0 ? CellRows<const float>{recurrent, rows.gates} : zeros,
                          h_before(a, rows, t, zeros),
                          cell,
                          h,
                          {nullptr, 0}});
  }

  static CellRows<const float> h_before(const RecurrentShard& a, const ShardRows& rows, int64_t t,
                                        const CellRows<const float>& zeros) {
    return t > 0 ? CellRows<const float>{rows.states_of(t - 1) + a.first, rows.hidden} : zeros;
  }

  void backward_step(CpuStream& worker, const RecurrentShard& a, int64_t t, const float* dy, const Work& work) const {
    const ShardRows rows(a);
    const CellRows<const float> zeros = zero_row(worker, rows.gates);
    const bool lstm = a.shape.cell == RecurrentCell::lstm, is_last = t + 1 == a.shape.steps;
    if (is_last) {
      std::fill_n(work.d_own, rows.batch * rows.held, 0.0f);
      std::fill_n(work.d_cell, rows.batch * rows.held, 0.0f);
    }
    for (int64_t b = 0; b < rows.batch && !is_last; ++b) {  // LSTM: nothing reaches the states but through the gates
      float* const own = work.d_own + b * rows.held;
      const float* const sums = work.d_states + b * rows.hidden + a.first;
      for (int64_t i = 0; i < rows.held; ++i) own[i] = (lstm ? 0.0f : own[i]) + sums[i];
    }
    CellRows<const float> d_output = zeros;
    if (!a.shape.last_step_only) d_output = {dy + t * rows.hidden + a.first, a.shape.steps * rows.hidden};
    if (a.shape.last_step_only && is_last) d_output = {dy + a.first, rows.hidden};
    const CellRows<const float> gates{rows.gates_of(t), rows.gates}, cell{rows.cell_of(t), rows.held};
    const CellRows<float> d_gates{work.d_gates + t * rows.batch * 4 * rows.held, 4 * rows.held};
    const CellRows<float> d_own{work.d_own, rows.held}, d_cell{work.d_cell, rows.held};
    if (lstm) {
      const CellRows<const float> c_before = t > 0 ? CellRows<const float>{rows.cell_of(t - 1), rows.held} : zeros;
      kernels_.lstm_backward(
          {rows.batch, rows.held, gates, c_before, cell, d_output, {d_own.data, d_own.stride}, d_cell, d_gates});
    } else {
      kernels_.gru_backward(
          {rows.batch, rows.held, gates, cell, h_before(a, rows, t, zeros), d_output, d_own, d_gates});
    }
    if (t > 0)
      multiply('N', 'N', rows.batch, rows.hidden, rows.gates, {d_gates.data, d_gates.stride},
               {a.weights.w_hidden, rows.hidden}, work.d_states, rows.hidden, false);
  }

  static void weight_gradients(const RecurrentShard& a, const Work& work, const RecurrentWeights<float>& gradients,
                               bool accumulate) {
    const ShardRows rows(a);
    const int64_t stride = 4 * rows.held, input = a.shape.input;
    const bool lstm = a.shape.cell == RecurrentCell::lstm;
    const int64_t together = lstm ? rows.gates : 2 * rows.held;  // of GRU, n follows the candidate
    for (int64_t t = 0; t < a.shape.steps; ++t) {
      const float* const d_gates = work.d_gates + t * rows.batch * stride;
      const CpuMatrix x = input_of_step(a, a.x, t);
      multiply('T', 'N', together, input, rows.batch, {d_gates, stride}, x, gradients.w_input, input,
               accumulate || t > 0);
      if (!lstm)
        multiply('T', 'N', rows.held, input, rows.batch, {d_gates + 3 * rows.held, stride}, x,
                 gradients.w_input + together * input, input, accumulate || t > 0);
    }
    if (a.shape.steps > 1)
      multiply('T', 'N', rows.gates, rows.hidden, rows.rows - rows.batch, {work.d_gates + rows.batch * stride, stride},
               {rows.states_of(0), rows.hidden}, gradients.w_hidden, rows.hidden, accumulate);
    else if (!accumulate)
      std::fill_n(gradients.w_hidden, rows.gates * rows.hidden, 0.0f);
  }

  static void bias_gradients(const RecurrentShard& a, const Work& work, const RecurrentWeights<float>& gradients,
                             bool accumulate) {
    const ShardRows rows(a);
    const bool lstm = a.shape.cell == RecurrentCell::lstm;
    for (int64_t column = 0; column < 4 * rows.held; ++column) {
      float sum = 0;
      for (int64_t row = 0; row < rows.rows; ++row) sum += work.d_gates[row * 4 * rows.held + column];
      const auto add = [&](float& to) { to = (accumulate ? to : 0.0f) + sum; };
      if (lstm || column < 3 * rows.held) add(gradients.b_hidden[column]);
      if (lstm || column < 2 * rows.held) add(gradients.b_input[column]);
      if (!lstm && column >= 3 * rows.held) add(gradients.b_input[column - rows.held]);
    }
  }

  static void input_gradient(const RecurrentShard& a, const Work& work, float* dx) {
    const ShardRows rows(a);
    const int64_t stride = 4 * rows.held, input = a.shape.input, dx_stride = a.shape.steps * input;
    const bool lstm = a.shape.cell == RecurrentCell::lstm;
    const int64_t together = lstm ? rows.gates : 2 * rows.held;
    for (int64_t t = 0; t < a.shape.steps; ++t) {
      const float* const d_gates = work.d_gates + t * rows.batch * stride;
      multiply('N', 'N', rows.batch, input, together, {d_gates, stride}, {a.weights.w_input, input}, dx + t * input,
               dx_stride, false);
      if (!lstm)
        multiply('N', 'N', rows.batch, input, rows.held, {d_gates + 3 * rows.held, stride},
                 {a.weights.w_input + together * input, input}, dx + t * input, dx_stride, true);
    }
  }

  const CpuRecurrentKernels& kernels_;
};

}  // namespace

std::unique_ptr<RecurrentShardOps> make_cpu_recurrent_shards(const CpuRecurrentKernels& kernels) {
  return std::make_unique<CpuRecurrentShards>(kernels);
}

}  // namespace amdahl
