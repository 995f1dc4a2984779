#include "ops/cpu_scratch.h"

namespace amdahl {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

/// The copy of `unaliased` (ops/gemm/cpu_gemm.h); none for other strides.
int64_t padded_copy(int64_t rows, int64_t columns, int64_t stride, int64_t aliasing) {
  return stride % aliasing == 0 ? rows * (columns + kPadFloats) * kFloatBytes : 0;
}

int64_t weight_bytes(const ConvShape& s) { return s.out_channels * s.kernel * s.kernel * s.in_channels * kFloatBytes; }

template <class Arrays, class Call>
CpuScratch scratch_of_arrays(const Call& call) {
  Arrays arrays;
  Carver counter;
  arrays.fill(counter, call);
  return {counter.used() * kFloatBytes, 0};
}

}  // namespace

int64_t queries_of_a_block(int64_t steps, bool causal) {
  // With more, scores leave the second-level cache, and causal blocks compute more that is masked; with fewer, GEMMs
  // are slow.
  constexpr int64_t kFewest = 64, kMost = 128, kScoresOfABlock = 262144;
  const int64_t most = causal ? kFewest : std::clamp(kScoresOfABlock / steps, kFewest, kMost);
  const int64_t blocks = (steps + most - 1) / most;
  return (steps + blocks - 1) / blocks;
}

int64_t keys_of_a_block(const AttentionShape& s) {
  const int64_t queries = queries_of_a_block(s.steps, s.causal);
  return s.window > 0 ? std::min(s.steps, queries + s.window - 1) : s.steps;
}

int64_t padded_width(int64_t width) {
  const int64_t rounded = (width + kPadFloats - 1) / kPadFloats * kPadFloats;
  return rounded % kAliasingActivations == 0 ? rounded + kPadFloats : rounded;
}

void RecurrentForwardArrays::fill(Carver& carver, const RecurrentForward& a) {
  const RecurrentShape& s = a.shape;
  const int64_t gates = num_gates(s.cell) * s.hidden;
  input_stride = padded_width(s.input);
  weight_stride = padded_width(gates);
  if (!same_order(s)) x = carver.take(s.steps * s.batch * input_stride);
  zeros = carver.take(gates);
  if (s.steps > 1) w_hidden = carver.take(s.hidden * weight_stride);
  if (s.cell == RecurrentCell::gru) recurrent = carver.take(s.batch * weight_stride);
}

void RecurrentBackwardArrays::fill(Carver& carver, const RecurrentBackward& a) {
  const RecurrentShape& s = a.shape;
  const int64_t rows = s.steps * s.batch;
  input_stride = padded_width(s.input);
  gate_stride = padded_width(4 * s.hidden);  // of GRU: r, z, candidate, n
  state_stride = padded_width(s.hidden);
  if (!same_order(s)) x = carver.take(rows * input_stride);
  if (!same_order(s) && a.dx) dx = carver.take(rows * input_stride);
  if (s.steps > 1) w_hidden = carver.take(num_gates(s.cell) * s.hidden * state_stride);
  dgates = carver.take(rows * gate_stride);
  sums = carver.take(4 * s.hidden);
  zeros = carver.take(s.hidden);
  dh = carver.take(s.batch * state_stride);
  dc = carver.take(s.batch * state_stride);
}

int64_t cpu_saved_bytes(const RecurrentShape& s) {
  return s.batch * s.steps * (padded_width(num_gates(s.cell) * s.hidden) + 2 * padded_width(s.hidden)) * kFloatBytes;
}

int64_t cpu_saved_bytes(const RecurrentShard& a) {
  return a.shape.batch * a.shape.steps * ((num_gates(a.shape.cell) + 1) * a.held + a.shape.hidden) * kFloatBytes;
}

CpuScratch scratch_of(const DenseForward& a) { return {padded_copy(a.batch, a.in, a.in, kAliasingActivations), 0}; }

CpuScratch scratch_of(const DenseBackwardInput& a) {
  return {pads_weights(a.batch) ? padded_copy(a.out, a.in, a.in, kAliasingWeights) : 0, 0};
}

CpuScratch scratch_of(const DenseBackwardWeight& a) {
  return {padded_copy(a.batch, a.out, a.dy_stride ? a.dy_stride : a.out, kAliasingActivations),
          padded_copy(a.batch, a.in, a.in, kAliasingActivations)};
}

CpuScratch scratch_of(const MatMul& a) {
  CpuScratch scratch;
  if (a.transpose_a) return scratch;
  for (const int64_t columns :
       {std::min(a.n, kColumnsOfABlock), a.n % kColumnsOfABlock}) {  // of the first block, the last
    if (columns == 0) continue;
    scratch.include({has_block(a) ? std::min(rows_of_a_block(columns), a.m) * columns * kFloatBytes : 0,
                     transposes_right(a) ? a.k * (columns + kPadFloats) * kFloatBytes : 0});
  }
  return scratch;
}

CpuScratch scratch_of(const AttentionForward& a) {
  const int64_t queries = queries_of_a_block(a.shape.steps, a.shape.causal);
  return {queries * (padded_width(keys_of_a_block(a.shape)) + 1) * kFloatBytes, 0};
}
CpuScratch scratch_of(const AttentionBackward& a) {
  const int64_t queries = queries_of_a_block(a.shape.steps, a.shape.causal);
  return {queries * (2 * padded_width(keys_of_a_block(a.shape)) + 1) * kFloatBytes, 0};
}

CpuScratch scratch_of(const RecurrentForward& a) { return scratch_of_arrays<RecurrentForwardArrays>(a); }
CpuScratch scratch_of(const RecurrentBackward& a) { return scratch_of_arrays<RecurrentBackwardArrays>(a); }
CpuScratch scratch_of(const RecurrentShard& a) {
  const int64_t gates = num_gates(a.shape.cell) * a.held * kFloatBytes;
  return {a.shape.cell == RecurrentCell::gru ? a.shape.batch * gates : 0, gates};
}

CpuScratch scratch_of(const ConvForward& a) { return {weight_bytes(a.shape), 0}; }
CpuScratch scratch_of(const ConvBackwardData& a) {
  const ConvShape& s = a.shape;
  return {weight_bytes(s) + (a.accumulate ? s.rows * s.height * s.width * s.in_channels * kFloatBytes : 0), 0};
}
CpuScratch scratch_of(const ConvBackwardFilter& a) { return {weight_bytes(a.shape) * (a.accumulate ? 2 : 1), 0}; }

CpuScratch normalisation_scratch(int64_t channels) {
  return {channels * static_cast<int64_t>(2 * sizeof(double) + 3 * sizeof(float)), 0};
}

}  // namespace amdahl
