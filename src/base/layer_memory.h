// Device memory of each kind of layer, as the classes of src/model allocate it. Columns of the table layer_kinds().
#pragma once

#include "base/layer_kinds.h"

namespace amdahl {

/// Output and its gradient alone.
LayerMemory output_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
LayerMemory projection_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
LayerMemory block_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
LayerMemory norm_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
LayerMemory recurrent_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
LayerMemory conv_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
LayerMemory residual_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);
LayerMemory head_memory(const LayerSpec& layer, const Shape& input, const MemoryChoice& choice);

}  // namespace amdahl
