// The tensors of a model as other programs name and divide them.
//
// Families of Hugging Face's transformers: decoders with rotary positions (llama, mistral, qwen2, qwen3), gpt2, bert.
// Their attention has queries, keys and values apart, gated layers the gate and the other half; gpt2 has its weights
// transposed.
#pragma once

#include <string>
#include <vector>

#include "amdahl/plan.h"
#include "amdahl/tensor.h"

namespace amdahl {

/// A tensor of a file and its place in a model's parameters, where its rows lie one after another.
struct WeightPart {
  std::string name, short_name;  // in a file of the whole model, and of the model without its head
  std::vector<int64_t> shape;    // of the file
  int64_t begin = 0;             // floats of the layout
  bool transposed = false;       // [columns, rows] in the file

  int64_t floats() const;
};

/// As weight_ranges, without other names.
std::vector<WeightPart> own_parts(const ModelSpec& model);
/// As transformers names and divides them. Error{usage} for a model of no such family.
std::vector<WeightPart> foreign_parts(const ModelSpec& model);

/// `parameters` are in layout order.
std::vector<NamedArray> arrays_of(const std::vector<WeightPart>& parts, const std::vector<float>& parameters);
/// Writes the array into `parameters`.
void place_part(const WeightPart& part, const std::vector<float>& values, std::vector<float>& parameters);

}  // namespace amdahl
