// Recurrent layers on the CPU: one GEMM over all steps for the input part, for dx and for each weight gradient; per
// step one recurrent GEMM and one pass over the gates.
//
// Work arrays are time-major, rows [step, batch], so that the rows of a step and of all steps are both one matrix.
// Their rows are padded: oneDNN is slow on rows that are a large power of two apart (cpu_gemm.h).
#include <algorithm>
#include <cstring>
#include <memory>

#include "device/cpu_device.h"
#include "ops/cpu_ops.h"
#include "ops/gemm/cpu_gemm.h"
#include "ops/recurrent/cpu_recurrent_kernels.h"
#include "ops/recurrent/cpu_recurrent_shards.h"
#include "ops/recurrent/flush_denormals.h"

namespace amdahl {
namespace {

const CpuRecurrentKernels& best_recurrent_kernels() {
  return &best_cpu_kernels() == &kCpuKernelsAvx2 ? kCpuRecurrentAvx2 : kCpuRecurrentBaseline;
}

/// What forward keeps, in this order: activations of the gates [steps, batch, G * hidden], h [steps, batch, hidden],
/// and c (LSTM) or the recurrent part of the candidate (GRU), like h.
struct SavedRows {
  explicit SavedRows(const RecurrentShape& s)
      : rows(s.steps * s.batch),
        gate_stride(padded_width(num_gates(s.cell) * s.hidden)),
        state_stride(padded_width(s.hidden)) {}
  template <class Float>
  Float* h(Float* saved) const {
    return saved + rows * gate_stride;
  }
  template <class Float>
  Float* cell(Float* saved) const {
    return saved + rows * (gate_stride + state_stride);
  }
  int64_t rows, gate_stride, state_stride;
};

/// Work arrays of type Arrays, which has fill(Carver&, shape), in slot 0 of the stream.
template <class Arrays, class Call>
Arrays work_arrays(CpuStream& worker, const Call& call) {
  Arrays arrays;
  Carver counter;
  arrays.fill(counter, call);
  Carver carver(static_cast<float*>(worker.scratch(0, static_cast<size_t>(counter.used()) * sizeof(float))));
  arrays.fill(carver, call);
  return arrays;
}

/// x [batch, steps, input] with its rows in the order of the work arrays.
CpuMatrix time_major(const RecurrentShape& s, const float* x, float* copy, int64_t stride) {
  if (same_order(s)) return {x, s.input};
  for (int64_t t = 0; t < s.steps; ++t)
    for (int64_t b = 0; b < s.batch; ++b)
      std::memcpy(copy + (t * s.batch + b) * stride, x + (b * s.steps + t) * s.input,
                  static_cast<size_t>(s.input) * sizeof(float));
  return {copy, stride};
}

/// to[columns, rows] = from[rows, columns]^T, in blocks that stay in the first-level cache.
void transpose_weights(const float* from, int64_t rows, int64_t columns, float* to, int64_t to_stride) {
  constexpr int64_t kBlock = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kBlock)
    for (int64_t c0 = 0; c0 < columns; c0 += kBlock)
      for (int64_t c = c0; c < std::min(c0 + kBlock, columns); ++c)
        for (int64_t r = r0; r < std::min(r0 + kBlock, rows); ++r) to[c * to_stride + r] = from[r * columns + c];
}

class CpuRecurrentOps final : public RecurrentOps {
 public:
  RecurrentShardOps& shards() override { return *shards_; }
  int64_t saved_bytes(const RecurrentShape& shape) const override { return cpu_saved_bytes(shape); }
  void recurrent_forward(Stream& stream, const RecurrentForward& a) override {
    require_f32(a.shape.type, "recurrent layers");
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] { forward(worker, a); });
  }
  void recurrent_backward(Stream& stream, const RecurrentBackward& a) override {
    require_f32(a.shape.type, "recurrent layers");
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] {
      const FlushDenormals here;
      backward(worker, a);
    });
  }

 private:
  void forward(CpuStream& worker, const RecurrentForward& a) const;
  void forward_step(const RecurrentForward& a, const RecurrentForwardArrays& work, float* saved, int64_t t) const;
  void backward(CpuStream& worker, const RecurrentBackward& a) const;
  void backward_step(const RecurrentBackward& a, const RecurrentBackwardArrays& work, const float* saved,
                     int64_t t) const;
  void sum_biases(const RecurrentBackward& a, const RecurrentBackwardArrays& work) const;

  const CpuRecurrentKernels& kernels_ = best_recurrent_kernels();
  const CpuKernels& sums_ = best_cpu_kernels();
  const std::unique_ptr<RecurrentShardOps> shards_ = make_cpu_recurrent_shards(kernels_);
};

void CpuRecurrentOps::forward(CpuStream& worker, const RecurrentForward& a) const {
  const RecurrentShape& s = a.shape;
  const SavedRows rows(s);
  const int64_t gates = num_gates(s.cell) * s.hidden;
  const auto work = work_arrays<RecurrentForwardArrays>(worker, a);
  float* saved = static_cast<float*>(a.saved ? a.saved : worker.scratch(1, static_cast<size_t>(saved_bytes(s))));
  std::fill_n(work.zeros, gates, 0.0f);
  if (work.w_hidden) transpose_weights(a.weights.w_hidden, gates, s.hidden, work.w_hidden, work.weight_stride);
  multiply('N', 'T', rows.rows, gates, s.input, time_major(s, a.x, work.x, work.input_stride),
           {a.weights.w_input, s.input}, saved, rows.gate_stride, false);
  for (int64_t t = 0; t < s.steps; ++t) forward_step(a, work, saved, t);
}

void CpuRecurrentOps::forward_step(const RecurrentForward& a, const RecurrentForwardArrays& work, float* saved,
                                   int64_t t) const {
  const RecurrentShape& s = a.shape;
  const SavedRows rows(s);
  const int64_t first = t * s.batch, before = first - s.batch, width = num_gates(s.cell) * s.hidden;
  float* h = rows.h(saved);
  float* cell = rows.cell(saved);
  const CellRows<float> gates{saved + first * rows.gate_stride, rows.gate_stride};
  const CellRows<float> h_now{h + first * rows.state_stride, rows.state_stride};
  const CellRows<float> cell_now{cell + first * rows.state_stride, rows.state_stride};
  const CellRows<const float> zeros{work.zeros, 0};
  const auto earlier = [&](const float* state) {
    return t == 0 ? zeros : CellRows<const float>{state + before * rows.state_stride, rows.state_stride};
  };
  CellRows<float> y{nullptr, 0};
  if (!s.last_step_only) y = {a.y + t * s.hidden, s.steps * s.hidden};
  if (s.last_step_only && t + 1 == s.steps) y = {a.y, s.hidden};

  const bool lstm = s.cell == RecurrentCell::lstm;
  if (t > 0)
    multiply('N', 'N', s.batch, width, s.hidden, {earlier(h).data, rows.state_stride},
             {work.w_hidden, work.weight_stride}, lstm ? gates.data : work.recurrent,
             lstm ? gates.stride : work.weight_stride, lstm);
  if (lstm)
    return kernels_.lstm_forward(
        {s.batch, s.hidden, a.weights.b_input, a.weights.b_hidden, gates, earlier(cell), cell_now, h_now, y});
  const CellRows<const float> recurrent = t == 0 ? zeros : CellRows<const float>{work.recurrent, work.weight_stride};
  kernels_.gru_forward(
      {s.batch, s.hidden, a.weights.b_input, a.weights.b_hidden, gates, recurrent, earlier(h), cell_now, h_now, y});
}

void CpuRecurrentOps::backward_step(const RecurrentBackward& a, const RecurrentBackwardArrays& work, const float* saved,
                                    int64_t t) const {
  const RecurrentShape& s = a.shape;
  const SavedRows rows(s);
  const int64_t first = t * s.batch, before = first - s.batch;
  const float* h = rows.h(saved);
  const float* cell = rows.cell(saved);
  const CellRows<const float> gates{saved + first * rows.gate_stride, rows.gate_stride};
  const CellRows<const float> cell_now{cell + first * rows.state_stride, rows.state_stride};
  const CellRows<const float> zeros{work.zeros, 0};
  const auto earlier = [&](const float* state) {
    return t == 0 ? zeros : CellRows<const float>{state + before * rows.state_stride, rows.state_stride};
  };
  CellRows<const float> dy = zeros;
  if (!s.last_step_only) dy = {a.dy + t * s.hidden, s.steps * s.hidden};
  if (s.last_step_only && t + 1 == s.steps) dy = {a.dy, s.hidden};
  const CellRows<float> dgates{work.dgates + first * work.gate_stride, work.gate_stride};
  const CellRows<float> dh{work.dh, work.state_stride}, dc{work.dc, work.state_stride};

  const bool lstm = s.cell == RecurrentCell::lstm;
  if (lstm)
    kernels_.lstm_backward({s.batch, s.hidden, gates, earlier(cell), cell_now, dy, {dh.data, dh.stride}, dc, dgates});
  else
    kernels_.gru_backward({s.batch, s.hidden, gates, cell_now, earlier(h), dy, dh, dgates});
  if (t > 0)
    multiply('N', 'N', s.batch, s.hidden, num_gates(s.cell) * s.hidden, {dgates.data, dgates.stride},
             {work.w_hidden, work.state_stride}, work.dh, work.state_stride, !lstm);
}

void CpuRecurrentOps::sum_biases(const RecurrentBackward& a, const RecurrentBackwardArrays& work) const {
  const RecurrentShape& s = a.shape;
  const int64_t h = s.hidden;
  sums_.column_sums(work.dgates, work.sums, s.steps * s.batch, 4 * h, work.gate_stride, false);
  const auto add = [&](float* to, const float* from, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[i] = (a.accumulate ? to[i] : 0.0f) + from[i];
  };
  const bool lstm = s.cell == RecurrentCell::lstm;
  add(a.gradients.b_hidden, work.sums, (lstm ? 4 : 3) * h);
  add(a.gradients.b_input, work.sums, (lstm ? 4 : 2) * h);
  if (!lstm) add(a.gradients.b_input + 2 * h, work.sums + 3 * h, h);
}

void CpuRecurrentOps::backward(CpuStream& worker, const RecurrentBackward& a) const {
  const RecurrentShape& s = a.shape;
  const SavedRows rows(s);
  const int64_t h = s.hidden, gates = num_gates(s.cell) * h;
  const auto work = work_arrays<RecurrentBackwardArrays>(worker, a);
  const auto* saved = static_cast<const float*>(a.saved);
  std::fill_n(work.zeros, h, 0.0f);
  std::fill_n(work.dh, s.batch * work.state_stride, 0.0f);
  std::fill_n(work.dc, s.batch * work.state_stride, 0.0f);
  if (work.w_hidden)
    for (int64_t r = 0; r < gates; ++r)
      std::memcpy(work.w_hidden + r * work.state_stride, a.weights.w_hidden + r * h,
                  static_cast<size_t>(h) * sizeof(float));
  for (int64_t t = s.steps - 1; t >= 0; --t) backward_step(a, work, saved, t);

  sum_biases(a, work);
  // The gradients before the activations that reach the input: of GRU, n instead of the candidate.
  const bool lstm = s.cell == RecurrentCell::lstm;
  const int64_t together = lstm ? gates : 2 * h;
  const float* dn = work.dgates + 3 * h;
  const CpuMatrix x = time_major(s, a.x, work.x, work.input_stride), dgates{work.dgates, work.gate_stride};
  multiply('T', 'N', together, s.input, rows.rows, dgates, x, a.gradients.w_input, s.input, a.accumulate);
  if (!lstm)
    multiply('T', 'N', h, s.input, rows.rows, {dn, work.gate_stride}, x, a.gradients.w_input + together * s.input,
             s.input, a.accumulate);
  if (s.steps > 1)
    multiply('T', 'N', gates, h, rows.rows - s.batch, {work.dgates + s.batch * work.gate_stride, work.gate_stride},
             {rows.h(saved), rows.state_stride}, a.gradients.w_hidden, h, a.accumulate);
  else if (!a.accumulate)
    std::fill_n(a.gradients.w_hidden, gates * h, 0.0f);
  if (!a.dx) return;
  float* dx = work.dx ? work.dx : a.dx;
  const int64_t stride = work.dx ? work.input_stride : s.input;
  multiply('N', 'N', rows.rows, s.input, together, dgates, {a.weights.w_input, s.input}, dx, stride, false);
  if (!lstm)
    multiply('N', 'N', rows.rows, s.input, h, {dn, work.gate_stride}, {a.weights.w_input + together * s.input, s.input},
             dx, stride, true);
  if (!work.dx) return;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t t = 0; t < s.steps; ++t)
      std::memcpy(a.dx + (b * s.steps + t) * s.input, dx + (t * s.batch + b) * stride,
                  static_cast<size_t>(s.input) * sizeof(float));
}

}  // namespace

std::unique_ptr<RecurrentOps> make_cpu_recurrent_ops() { return std::make_unique<CpuRecurrentOps>(); }

}  // namespace amdahl
