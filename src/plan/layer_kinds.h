// The kinds of layers as a table: shapes, parameters and FLOP of each, as pure functions of its description. Models,
// layouts, JSON, reports and plans read it; src/model has the code that computes a layer, from which its memory is
// recorded (parallel/stage_recording.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/plan.h"

namespace amdahl {

using Shape = std::vector<int64_t>;
/// Product of the extents.
int64_t count_of(const Shape& shape);
/// "[96, 50]"
std::string shape_text(const Shape& shape);

/// How a parameter is drawn before training.
enum class Initial { zero, one, he_normal, normal, uniform };

/// A tensor of parameters of one layer.
struct ParameterSpec {
  std::string name;  // "weight", "attention.qkv.weight"
  Shape shape;
  Initial initial = Initial::zero;
  double scale = 0;         // standard deviation of normal, bound of uniform
  int64_t padded_rows = 0;  // rows in memory; 0: shape[0]. The rows beyond shape[0] are zero and stay zero

  int64_t num_parameters() const { return count_of(shape); }
  int64_t stored_floats() const { return padded_rows > 0 ? count_of(shape) / shape[0] * padded_rows : count_of(shape); }
  /// Weight decay applies to matrices, not to biases, gains and statistics.
  bool decays() const { return shape.size() >= 2; }
};

/// Field of a layer's JSON object; one of the three pointers or both functions are set.
struct LayerField {
  std::string_view name;
  int64_t LayerSpec::*integer = nullptr;
  bool LayerSpec::*boolean = nullptr;
  double LayerSpec::*number = nullptr;
  std::vector<std::string_view> choices{};  // texts of the values 0, 1, ...
  int64_t (*chosen)(const LayerSpec& layer) = nullptr;
  void (*choose)(LayerSpec& layer, int64_t value) = nullptr;
  bool is_required = false;
  int64_t least = 0;        // of an integer
  bool is_omitted = false;  // not written when default: files and Records are older than the field

  bool is_written(const LayerSpec& layer) const;
};

struct LayerKindRow {
  LayerKind kind;
  std::string_view name;
  std::string_view summary;
  std::vector<LayerField> fields;  // besides a dense layer's activation and dropout
  /// Why the layer cannot take an input of this shape, or cannot be as described; empty: it can.
  std::string (*problem)(const LayerSpec& layer, const Shape& input);
  Shape (*output)(const LayerSpec& layer, const Shape& input);
  std::vector<ParameterSpec> (*parameters)(const LayerSpec& layer, const Shape& input);
  /// FLOP of forward per row: matrix products and convolutions only.
  double (*forward_flops)(const LayerSpec& layer, const Shape& input);
};

const std::vector<LayerKindRow>& layer_kinds();
const LayerKindRow& row_of(LayerKind kind);
inline std::vector<ParameterSpec> parameters_of(const LayerSpec& layer, const Shape& input) {
  return row_of(layer.kind).parameters(layer, input);
}
/// Whether the second path of a residual block is a convolution, because the sizes of input and output differ.
inline bool has_shortcut(const LayerSpec& layer, const Shape& input) {
  return layer.stride > 1 || input[2] != layer.units;
}
/// Whether a layer and the one above it compute on images: on one device they pass each other images of the compute
/// type.
inline bool passes_images(LayerKind below, LayerKind above) {
  const auto gives = [](LayerKind kind) {
    return kind == LayerKind::conv || kind == LayerKind::residual_block || kind == LayerKind::max_pool;
  };
  return gives(below) && (gives(above) || above == LayerKind::average_pool);
}
/// Rows of an embedding table or a token head in memory: a multiple of 128, so that GEMMs over the vocabulary run on
/// aligned tiles.
int64_t padded_vocabulary(int64_t vocabulary);
/// Of `tokens` tokens those whose logits, `token_bytes` each, a token head has in memory at once. Without chunk_rows as
/// many as take 1 GiB but at least 1,024, in chunks of equal size: each chunk adds to the gradient of the whole table,
/// which fewer rows would not hide.
int64_t head_chunk(const LayerSpec& head, int64_t tokens, int64_t token_bytes);

}  // namespace amdahl
