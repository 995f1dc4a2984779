// The offset of each layer's parameters in one flat array of floats; gradients and optimizer state share the layout.
//
// The last layer comes first, because backward finishes the layers in that order: a run of neighbouring layers is then
// one contiguous all-reduce. Every tensor starts on a 256-byte boundary; the padding stays zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "amdahl/plan.h"
#include "plan/layer_kinds.h"
#include "plan/shards.h"
#include "plan/stages.h"

namespace amdahl {

/// Floats [begin, end) of the layout.
struct FloatRange {
  int64_t begin = 0, end = 0;
  int64_t floats() const { return end - begin; }
};

/// The part of a layer's weight [units, input width] that a device holds. The bias is split like the rows.
struct WeightShard {
  int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
  int64_t rows() const { return row_end - row_begin; }
  int64_t columns() const { return column_end - column_begin; }
};

/// A tensor of a layer in the layout.
struct TensorSlice {
  ParameterSpec spec;              // as held here: of the shard
  int64_t begin = 0;               // first float; spec.stored_floats() follow
  ParameterSpec whole{};           // of all shards together
  TensorShard shard{};             // the part of `whole` held here
  bool is_partly_written = false;  // rows that a layer does not use keep a gradient of zero: positions, token types
};

struct LayerSlice {
  int64_t begin = 0, end = 0;        // floats, [begin, end) covers all tensors and padding
  std::vector<TensorSlice> tensors;  // in the order of parameters_of; the last one comes first in memory
  // Of a dense layer:
  int64_t weight = 0;  // offset of w[rows, columns] of the shard
  int64_t bias = -1;   // offset of b[rows], -1 without bias
  WeightShard shard;
  bool is_tied_table = false;  // of an embedding whose table the token head uses: its first tensor
  bool is_table_copy = false;  // of a tied head: its tensor is a copy of the embedding's table, which is elsewhere
};

struct ParameterLayout {
  LayerRange range;                // from the first to after the last layer that the array holds
  std::vector<LayerSlice> layers;  // by layer index, first layer first; empty outside of the range
  int64_t num_floats = 0;
};

/// `shards`: by layer index; empty: whole layers.
ParameterLayout make_layout(const ModelSpec& spec, LayerRange range = {}, const std::vector<WeightShard>& shards = {});

/// The part of a model that a rank of a mesh holds.
struct ModelPart {
  std::vector<LayerRange> stages;  // ascending; of a tied head whose embedding is elsewhere, a copy of the table too
  std::vector<TensorRole> roles;   // by layer: tensor_roles
  TensorPlace tensor;
};
ParameterLayout make_layout(const ModelSpec& spec, const ModelPart& part);

/// Calls copy(index in the whole tensor, index in the shard, count) for runs of floats that cover the shard.
void for_each_run(const TensorSlice& tensor, const std::function<void(int64_t, int64_t, int64_t)>& copy);

/// A part of one layer's gradients that is computed, and can be sent, by itself: some rows of a dense layer's weight,
/// or a whole layer of another kind. The last piece of a layer carries its bias and padding too.
struct GradientPiece {
  size_t layer = 0;
  int64_t row_begin = 0, row_end = 0;  // rows of the weight held here, of a dense layer
  int64_t begin = 0, end = 0;          // floats of the layout
};

inline constexpr int64_t kWholeLayers = INT64_MAX;  // as max_bytes: no layer is cut
/// All gradients in layout order: whole layers, or runs of rows of at most about `max_bytes`.
std::vector<GradientPiece> make_pieces(const ParameterLayout& layout, int64_t max_bytes);

}  // namespace amdahl
