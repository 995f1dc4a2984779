// The widths of a transformer block.
#pragma once

#include "plan/layer_kinds.h"

namespace amdahl {

/// What the fields of a block say, defaults resolved.
struct BlockWidths {
  int64_t units = 0, heads = 0, kv_heads = 0, head_dim = 0, hidden = 0;
  bool is_gated = false;

  int64_t attended() const { return heads * head_dim; }              // inputs of the layer behind attention
  int64_t qkv() const { return (heads + 2 * kv_heads) * head_dim; }  // queries, keys and values
  int64_t up() const { return is_gated ? 2 * hidden : hidden; }      // outputs of the first dense layer
  int64_t dense_weights() const { return units * (qkv() + attended() + up() + hidden); }
};
/// `layer` must pass its row's problem().
BlockWidths block_widths(const LayerSpec& layer);

}  // namespace amdahl
