// Scratch memory that operations on a CPU ask of their stream: copies with padded or transposed rows, blocks of
// results, work arrays. Operations and their recording both take the sizes from here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/attention/attention_ops.h"
#include "ops/conv/conv_ops.h"
#include "ops/gemm/gemm_ops.h"
#include "ops/gemm/matmul_ops.h"
#include "ops/recurrent/recurrent_ops.h"

namespace amdahl {

/// Rows that are a multiple of these numbers of floats apart are worth a copy with padded rows.
inline constexpr int64_t kAliasingActivations = 128, kAliasingWeights = 512;
/// Floats that are added to such rows.
inline constexpr int64_t kPadFloats = 16;

/// A product with an epilogue is computed in blocks of about this many floats, which stay in the second-level cache
/// until their epilogue has read them; with fewer rows, oneDNN packs the right operand too often.
inline constexpr int64_t kFloatsOfABlock = 131072, kColumnsOfABlock = 1024, kFewestRowsOfABlock = 256;
/// Rows of a block of a product with so many columns.
inline int64_t rows_of_a_block(int64_t columns) { return std::max(kFewestRowsOfABlock, kFloatsOfABlock / columns); }
/// Whether the epilogue of a product reads it from a block instead of from the result.
inline bool has_block(const MatMul& a) {
  return a.epilogue == MatMulEpilogue::bias_gelu || a.epilogue == MatMulEpilogue::gelu_gradient;
}
/// Whether the right operand is transposed first: oneDNN is slower with a transposed one, and from this number of rows
/// on, its transpose costs less.
inline bool transposes_right(const MatMul& a) { return !a.transpose_a && a.transpose_b && a.m >= 1024; }
/// Whether a copy of the weights with padded rows saves time at so many rows of the other operand.
inline bool pads_weights(int64_t rows) { return rows >= 16 && rows <= 767; }

/// Queries whose scores attention keeps at a time, in equal blocks.
int64_t queries_of_a_block(int64_t steps, bool causal);
/// The most keys that they attend to.
int64_t keys_of_a_block(const AttentionShape& shape);
/// Floats from one row of scores, or of a work array of recurrent layers, to the next: of whole vectors, and so that
/// rows do not map to the same cache sets.
int64_t padded_width(int64_t width);

/// Takes arrays from one block of memory: first without memory, to count, then with it.
class Carver {
 public:
  explicit Carver(float* memory = nullptr) : memory_(memory) {}
  float* take(int64_t floats) {
    float* start = memory_ ? memory_ + used_ : nullptr;
    used_ += (floats + 15) / 16 * 16;
    return start;
  }
  int64_t used() const { return used_; }

 private:
  float* memory_;
  int64_t used_ = 0;
};

/// Work arrays of a recurrent layer. [batch, steps] and [steps, batch] may be the same order of rows.
struct RecurrentForwardArrays {
  void fill(Carver& carver, const RecurrentForward& a);
  int64_t input_stride, weight_stride;
  float* x = nullptr;          // time-major
  float* zeros;                // a row of gates
  float* w_hidden = nullptr;   // [hidden, G * hidden]: the product of few rows is 1.7 times faster with it
  float* recurrent = nullptr;  // GRU: [batch, G * hidden] of one step
};
struct RecurrentBackwardArrays {
  void fill(Carver& carver, const RecurrentBackward& a);
  int64_t input_stride, gate_stride, state_stride;
  float* x = nullptr;         // time-major
  float* dx = nullptr;        // time-major
  float* w_hidden = nullptr;  // with padded rows
  float* dgates;              // of all steps
  float* sums;                // of dgates over its rows
  float* zeros;
  float *dh, *dc;  // of the step before
};
inline bool same_order(const RecurrentShape& s) { return s.batch == 1 || s.steps == 1; }

/// Bytes that a layer keeps for backward: gates and two states of each step, in padded rows; of divided cells without
/// padding.
int64_t cpu_saved_bytes(const RecurrentShape& shape);
int64_t cpu_saved_bytes(const RecurrentShard& shard);

/// Bytes of each of a stream's two blocks. Operations use them one after another.
struct CpuScratch {
  int64_t block0 = 0, block1 = 0;
  int64_t total() const { return block0 + block1; }
  /// The larger of each.
  void include(const CpuScratch& other) {
    block0 = std::max(block0, other.block0);
    block1 = std::max(block1, other.block1);
  }
};

CpuScratch scratch_of(const DenseForward& a);
CpuScratch scratch_of(const DenseBackwardInput& a);
CpuScratch scratch_of(const DenseBackwardWeight& a);
CpuScratch scratch_of(const MatMul& a);
CpuScratch scratch_of(const AttentionForward& a);
CpuScratch scratch_of(const AttentionBackward& a);
CpuScratch scratch_of(const RecurrentForward& a);
CpuScratch scratch_of(const RecurrentBackward& a);
/// Of every step of divided cells: a row of zeros, and the product of one step.
CpuScratch scratch_of(const RecurrentShard& a);
/// oneDNN chooses formats and scratchpads at run time: modelled are the weights in the format of its kernels, and what
/// is added to the result.
CpuScratch scratch_of(const ConvForward& a);
CpuScratch scratch_of(const ConvBackwardData& a);
CpuScratch scratch_of(const ConvBackwardFilter& a);
/// Of a batch normalisation.
CpuScratch normalisation_scratch(int64_t channels);

}  // namespace amdahl
