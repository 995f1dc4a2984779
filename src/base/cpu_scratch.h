// Scratch memory that operations on a CPU ask of their stream: copies with padded or transposed rows, blocks of
// results, work arrays. The operations of src/ops take the sizes of their blocks from here.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/layer_kinds.h"

namespace amdahl {

/// Rows that are a multiple of these numbers of floats apart are worth a copy with padded rows.
inline constexpr int64_t kAliasingActivations = 128, kAliasingWeights = 512;
/// Floats that are added to such rows.
inline constexpr int64_t kPadFloats = 16;
/// The range of rows of the other operand within which a copy of weights saves time.
inline constexpr int64_t kFirstRowsWorthACopy = 16, kLastRowsWorthACopy = 767;

/// A product with an epilogue is computed in blocks of about this many floats, which stay in the second-level cache
/// until their epilogue has read them; with fewer rows, oneDNN packs the right operand too often.
inline constexpr int64_t kFloatsOfABlock = 131072, kColumnsOfABlock = 1024, kFewestRowsOfABlock = 256;
/// oneDNN is slower with a transposed right operand; from this number of rows on, its transpose costs less.
inline constexpr int64_t kRowsWorthATranspose = 1024;
/// Rows of a block of a product with so many columns.
inline int64_t rows_of_a_block(int64_t columns) { return std::max(kFewestRowsOfABlock, kFloatsOfABlock / columns); }

/// Queries whose scores attention keeps at a time, in equal blocks.
int64_t queries_of_a_block(int64_t steps, bool causal);
/// Floats from one row of scores, or of a work array of recurrent layers, to the next: of whole vectors, and so that
/// rows do not map to the same cache sets.
int64_t padded_width(int64_t width);

/// What the scratch memory of a layer depends on besides its description.
struct CpuScratchCase {
  int64_t rows = 0;          // of a micro-batch
  int64_t shards = 1;        // of tensor parallelism; 1 for dense layers, which have the rank's units and inputs
  bool first = false;        // of the model: no gradient of its input
  bool accumulates = false;  // gradients of parameters are added to those of an earlier micro-batch
};

/// Bytes of each of a stream's two blocks. Layers use them one after another.
struct CpuScratch {
  int64_t block0 = 0, block1 = 0;
  int64_t total() const { return block0 + block1; }
  /// The larger of each.
  void include(const CpuScratch& other) {
    block0 = std::max(block0, other.block0);
    block1 = std::max(block1, other.block1);
  }
};

/// Column of the table layer_kinds(): of forward and backward in f32.
CpuScratch no_scratch(const LayerSpec& layer, const Shape& input, const CpuScratchCase& choice);
CpuScratch dense_scratch(const LayerSpec& layer, const Shape& input, const CpuScratchCase& choice);
CpuScratch projection_scratch(const LayerSpec& layer, const Shape& input, const CpuScratchCase& choice);
CpuScratch block_scratch(const LayerSpec& layer, const Shape& input, const CpuScratchCase& choice);
CpuScratch recurrent_scratch(const LayerSpec& layer, const Shape& input, const CpuScratchCase& choice);
CpuScratch conv_scratch(const LayerSpec& layer, const Shape& input, const CpuScratchCase& choice);
CpuScratch head_scratch(const LayerSpec& layer, const Shape& input, const CpuScratchCase& choice);

}  // namespace amdahl
