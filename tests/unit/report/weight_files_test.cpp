// Weights that a training begins with: own names and those of transformers, one file or several.
#include "setup/weight_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/small_floats.h"
#include "files/safetensors.h"
#include "files/whole_file.h"
#include "model/parameter_layout.h"
#include "plan/model_presets.h"
#include "temporary_folder.h"
#include "train/foreign_names.h"
#include "train/named_weights.h"

namespace amdahl::test {
namespace {

namespace fs = std::filesystem;

ModelSpec tiny_llama(int64_t hidden = 10) {
  LayerSpec block = of_kind(LayerKind::transformer_block, 8);
  block.heads = 4, block.kv_heads = 2, block.head_dim = 6, block.hidden = hidden, block.causal = true;
  block.norm = NormKind::rms, block.mlp = MlpKind::swiglu, block.rope_theta = 1e4;
  block.out_bias = block.mlp_bias = false;
  return decoder_model({.name = "tiny", .block = block, .blocks = 2, .vocabulary = 11, .steps = 4});
}

ModelSpec tiny_gpt2() {
  LayerSpec block = of_kind(LayerKind::transformer_block, 8);
  block.heads = 2, block.causal = true;
  return decoder_model(
      {.name = "tiny", .block = block, .blocks = 1, .vocabulary = 11, .steps = 4, .positions = 4, .tied = true});
}

/// A different value for every float of a tensor, and 0 between the tensors.
std::vector<float> counted(const ModelSpec& model) {
  std::vector<float> parameters(static_cast<size_t>(make_layout(model).num_floats));
  float value = 1;
  for (const WeightRange& range : weight_ranges(model))
    for (int64_t i = 0; i < range.floats(); ++i) parameters[static_cast<size_t>(range.begin + i)] = value++;
  return parameters;
}

std::string refusal(const ModelSpec& model, const fs::path& path) {
  try {
    read_weights(model, path.string());
    return "accepted";
  } catch (const Error& error) {
    EXPECT_FALSE(error.remedy().empty());
    return error.what();
  }
}

TEST(WeightFiles, NamesTheTensorsOfADecoderAsTransformersDoes) {
  std::string names;
  for (const WeightPart& part : foreign_parts(tiny_llama()))
    if (part.name.find("layers.1.") == std::string::npos) names += part.name + shape_text(part.shape) + "\n";
  EXPECT_EQ(names,
            "model.embed_tokens.weight[11, 8]\n"
            "model.layers.0.input_layernorm.weight[8]\n"
            "model.layers.0.self_attn.q_proj.weight[24, 8]\n"
            "model.layers.0.self_attn.k_proj.weight[12, 8]\n"
            "model.layers.0.self_attn.v_proj.weight[12, 8]\n"
            "model.layers.0.self_attn.q_proj.bias[24]\n"
            "model.layers.0.self_attn.k_proj.bias[12]\n"
            "model.layers.0.self_attn.v_proj.bias[12]\n"
            "model.layers.0.self_attn.o_proj.weight[8, 24]\n"
            "model.layers.0.post_attention_layernorm.weight[8]\n"
            "model.layers.0.mlp.gate_proj.weight[10, 8]\n"
            "model.layers.0.mlp.up_proj.weight[10, 8]\n"
            "model.layers.0.mlp.down_proj.weight[8, 10]\n"
            "model.norm.weight[8]\n"
            "lm_head.weight[11, 8]\n");
}

TEST(WeightFiles, ReadsWhatWasWrittenUnderBothNames) {
  const TestFolder folder;
  const fs::path file = folder.path() / "model.safetensors";
  for (const ModelSpec& model : {tiny_llama(), tiny_gpt2()}) {
    const std::vector<float> parameters = counted(model);
    for (const auto& parts : {own_parts(model), foreign_parts(model)}) {
      save_safetensors(file, arrays_of(parts, parameters), {});
      EXPECT_EQ(read_weights(model, file.string()), parameters);
      EXPECT_EQ(read_weights(model, folder.path().string()), parameters);
    }
  }
}

TEST(WeightFiles, ReadsTheModelWithoutItsHeadsPrefixAndIgnoresOtherTensors) {
  const TestFolder folder;
  const fs::path file = folder.path() / "a.safetensors";
  const ModelSpec model = tiny_gpt2();
  std::vector<NamedArray> arrays;
  for (const WeightPart& part : foreign_parts(model)) {
    arrays.push_back(arrays_of({part}, counted(model))[0]);
    arrays.back().name = part.short_name;
    if (part.short_name == "h.0.attn.c_attn.weight") {
      EXPECT_EQ(part.shape, (std::vector<int64_t>{8, 24}));
    }
  }
  arrays.push_back({"h.0.attn.bias", {2}, {1, 2}});
  save_safetensors(file, arrays, {});
  EXPECT_EQ(read_weights(model, file.string()), counted(model));
}

TEST(WeightFiles, ReadsSixteenBits) {
  const TestFolder folder;
  const ModelSpec model = tiny_llama();
  std::vector<float> parameters = counted(model);
  for (float& value : parameters) value = std::fmod(value, 128.0f);  // exact in both types
  const std::vector<NamedArray> arrays = arrays_of(foreign_parts(model), parameters);
  for (const bool brain : {true, false}) {
    std::vector<std::string> storage;
    std::vector<SafeTensor> tensors;
    for (const NamedArray& array : arrays) {
      std::string bytes;
      for (const float value : array.values) {
        const uint16_t bits = brain ? to_bfloat(value).bits : to_half(value).bits;
        bytes.append(reinterpret_cast<const char*>(&bits), sizeof bits);
      }
      storage.push_back(bytes);
    }
    for (size_t i = 0; i < arrays.size(); ++i)
      tensors.push_back({arrays[i].name, brain ? "BF16" : "F16", arrays[i].shape, storage[i]});
    std::string content = safetensors_header(tensors, {});
    for (const std::string& bytes : storage) content += bytes;
    write_atomic(folder.path() / "model.safetensors", content);
    EXPECT_EQ(read_weights(model, folder.path().string()), parameters);
  }
}

/// The arrays in two files and their index.
void write_shards(const fs::path& folder, const std::vector<NamedArray>& arrays) {
  const size_t half = arrays.size() / 2;
  const auto middle = arrays.begin() + static_cast<std::ptrdiff_t>(half);
  save_safetensors(folder / "one.safetensors", {arrays.begin(), middle}, {});
  save_safetensors(folder / "two.safetensors", {middle, arrays.end()}, {});
  std::string map;
  for (size_t i = 0; i < arrays.size(); ++i)
    map +=
        (i == 0 ? "\"" : ", \"") + arrays[i].name + (i < half ? "\": \"one.safetensors\"" : "\": \"two.safetensors\"");
  std::ofstream(folder / "model.safetensors.index.json") << "{\"metadata\": {}, \"weight_map\": {" << map << "}}";
}

TEST(WeightFiles, ReadsShardsAndSaysWhichIsMissing) {
  const TestFolder folder;
  const ModelSpec model = tiny_llama();
  write_shards(folder.path(), arrays_of(foreign_parts(model), counted(model)));
  const fs::path index = folder.path() / "model.safetensors.index.json";
  EXPECT_EQ(read_weights(model, folder.path().string()), counted(model));
  EXPECT_EQ(read_weights(model, index.string()), counted(model));
  fs::remove(folder.path() / "two.safetensors");
  EXPECT_EQ(refusal(model, folder.path()), index.string() + ": its shard two.safetensors is not there");
  std::ofstream(index) << R"({"weight_map": {"a": "../a.safetensors"}})";
  EXPECT_EQ(refusal(model, index), index.string() + ": field 'weight_map' has tensor 'a' in '../a.safetensors'");
  fs::remove(index);
  EXPECT_EQ(refusal(model, folder.path()),
            "`weights`: " + folder.path().string() + " has neither model.safetensors nor model.safetensors.index.json");
}

TEST(WeightFiles, SaysWhichTensorDoesNotFit) {
  const TestFolder folder;
  const std::string file = (folder.path() / "model.safetensors").string();
  std::vector<NamedArray> arrays = arrays_of(foreign_parts(tiny_llama()), counted(tiny_llama()));
  save_safetensors(file, arrays, {});
  EXPECT_EQ(refusal(tiny_llama(12), file),
            file + ": tensor 'model.layers.0.mlp.gate_proj.weight' is [10, 8], and model 'tiny' has [12, 8]");
  std::erase_if(arrays, [](const NamedArray& array) { return array.name == "model.norm.weight"; });
  save_safetensors(file, arrays, {});
  EXPECT_EQ(refusal(tiny_llama(), file), file + ": tensor 'model.norm.weight' of model 'tiny' is not there");
  ModelSpec other = tiny_llama();
  other.layers[1].norm = NormKind::layer;
  EXPECT_EQ(refusal(other, file), "model 'tiny' is of no family whose tensors Hugging Face's transformers name");
}

}  // namespace
}  // namespace amdahl::test
