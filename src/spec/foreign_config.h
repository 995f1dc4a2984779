// config.json of Hugging Face's transformers. Private to this folder.
#pragma once

#include <string_view>

#include "amdahl/plan.h"
#include "spec/json_fields.h"

namespace amdahl {

/// The model that a document with a "model_type" describes: llama, mistral, qwen2, qwen3, gpt2, bert. Fields that do
/// not change what is computed are ignored, and so is dropout. Error{usage} for another type, and for fields that ask
/// for what is not computed here.
ModelSpec model_of_config(const Fields& config, std::string_view origin);

}  // namespace amdahl
