// Device memory of each kind of layer, as the classes of src/model allocate it. Columns of the table layer_kinds().
#pragma once

#include "base/layer_kinds.h"

namespace amdahl {

/// Output and its gradient alone.
LayerMemory output_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
/// In which type a projection of `input` computes where other layers compute in `type`. Rows of 16-bit values that are
/// no multiple of 16 bytes keep the gradient's GEMM off the tensor cores: measured 207 us instead of less than 10 for
/// 50 columns and 3,072 rows on an H100.
DType projection_type(const Shape& input, DType type);
LayerMemory projection_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
LayerMemory block_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
LayerMemory norm_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
LayerMemory recurrent_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
LayerMemory conv_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
LayerMemory residual_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
LayerMemory head_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);

/// Memory of layer `index` where one device holds the layers [first, last) of the model. Sets what `choice` has of the
/// neighbours.
LayerMemory memory_of_layer(const ModelSpec& model, size_t index, MemoryChoice choice, size_t first = 0,
                            size_t last = SIZE_MAX);

}  // namespace amdahl
