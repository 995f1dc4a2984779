#include "base/cpu_scratch.h"

namespace amdahl {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

/// The copy of `unaliased` (ops/cpu_gemm.h); none for other strides.
int64_t padded_copy(int64_t rows, int64_t columns, int64_t aliasing) {
  return columns % aliasing == 0 ? rows * (columns + kPadFloats) * kFloatBytes : 0;
}

/// A product [rows, columns] over `terms`, as in ops/cpu_matmul_ops.cpp. `transposed`: the right operand;
/// `has_pass`: its epilogue reads the product from a block.
CpuScratch product(int64_t rows, int64_t columns, int64_t terms, bool transposed, bool has_pass = false) {
  const int64_t width = std::min(columns, kColumnsOfABlock);
  CpuScratch scratch;
  if (has_pass) scratch.block0 = std::min(rows_of_a_block(width), rows) * width * kFloatBytes;
  if (transposed && rows >= kRowsWorthATranspose) scratch.block1 = terms * (width + kPadFloats) * kFloatBytes;
  return scratch;
}

/// Weights in the format of oneDNN's kernels; and, where gradients are added, the new ones before that.
CpuScratch convolution(int64_t out, int64_t kernel, int64_t in, bool accumulates) {
  return {out * kernel * kernel * in * kFloatBytes * (accumulates ? 2 : 1), 0};
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

int64_t padded_width(int64_t width) {
  const int64_t rounded = (width + kPadFloats - 1) / kPadFloats * kPadFloats;
  return rounded % kAliasingActivations == 0 ? rounded + kPadFloats : rounded;
}

CpuScratch no_scratch(const LayerSpec&, const Shape&, const CpuScratchCase&) { return {}; }

CpuScratch dense_scratch(const LayerSpec& layer, const Shape& input, const CpuScratchCase& c) {
  const int64_t in = count_of(input), out = layer.units;  // those of a rank
  const int64_t of_x = padded_copy(c.rows, in, kAliasingActivations);
  const bool copies_weights = !c.first && c.rows >= kFirstRowsWorthACopy && c.rows <= kLastRowsWorthACopy;
  CpuScratch scratch{std::max(of_x, padded_copy(c.rows, out, kAliasingActivations)), of_x};
  if (copies_weights) scratch.include({padded_copy(out, in, kAliasingWeights), 0});
  return scratch;
}

CpuScratch projection_scratch(const LayerSpec& layer, const Shape& input, const CpuScratchCase& c) {
  return product(c.rows * input[0], layer.units, input[1], true);
}

CpuScratch block_scratch(const LayerSpec& layer, const Shape& input, const CpuScratchCase& c) {
  const int64_t tokens = c.rows * input[0], d = layer.units, queries = queries_of_a_block(input[0], layer.causal);
  CpuScratch scratch{queries * (2 * padded_width(input[0]) + 1) * kFloatBytes, 0};
  scratch.include(product(tokens, 3 * d / c.shards, d, true));
  scratch.include(product(tokens, d, d / c.shards, true));
  scratch.include(product(tokens, 4 * d / c.shards, d, true, true));
  scratch.include(product(tokens, d, 4 * d / c.shards, true));
  return scratch;
}

// Of backward, which takes more than forward. A divided layer has a row of zeros and the product of one step.
CpuScratch recurrent_scratch(const LayerSpec& layer, const Shape& input, const CpuScratchCase& c) {
  const int64_t steps = input[0], rows = c.rows * steps, held = layer.units / c.shards;
  const int64_t gates = (layer.kind == LayerKind::lstm ? 4 : 3) * held, state = padded_width(layer.units);
  if (c.shards > 1) return {layer.kind == LayerKind::gru ? c.rows * gates * kFloatBytes : 0, gates * kFloatBytes};
  const bool reorders = c.rows > 1 && steps > 1;
  int64_t floats = rows * padded_width(4 * held) + 5 * held + 2 * c.rows * state;
  if (reorders) floats += rows * padded_width(input[1]) * (c.first ? 1 : 2);
  if (steps > 1) floats += gates * state;
  return {floats * kFloatBytes, 0};
}

CpuScratch conv_scratch(const LayerSpec& layer, const Shape& input, const CpuScratchCase& c) {
  if (layer.kind == LayerKind::conv) return convolution(layer.units, layer.kernel, input[2], c.accumulates);
  CpuScratch scratch = convolution(layer.units, 3, input[2], c.accumulates);
  scratch.include(convolution(layer.units, 3, layer.units, c.accumulates));
  return scratch;
}

CpuScratch head_scratch(const LayerSpec& layer, const Shape& input, const CpuScratchCase& c) {
  return product(c.rows * input[0], padded_vocabulary(layer.vocabulary) / c.shards, input[1], true);
}

}  // namespace amdahl
