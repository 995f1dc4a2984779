// Model files: {"version": 1, "name": ..., "input_width": ..., "loss": ..., "layers": [{"units": ...}, ...]}. Layers
// other than dense ones have a "kind", and such models an "input_shape".
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "files/whole_file.h"
#include "plan/layer_kinds.h"
#include "spec/foreign_config.h"
#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

Activation read_activation(const Fields& fields, Activation fallback) {
  const std::string name = fields.text_or("activation", fallback == Activation::relu ? "relu" : "none");
  if (name == "relu") return Activation::relu;
  if (name == "none") return Activation::none;
  fields.fail("activation", fmt::format("is \"{}\"", name), "\"relu\" or \"none\"");
}

LossKind read_loss(const Fields& fields) {
  const std::string name = fields.text_or("loss", "mse");
  if (name == "mse") return LossKind::mse;
  if (name == "softmax_cross_entropy") return LossKind::softmax_cross_entropy;
  fields.fail("loss", fmt::format("is \"{}\"", name), "\"mse\" or \"softmax_cross_entropy\"");
}

const LayerKindRow& read_kind(const Fields& fields) {
  const std::string name = fields.text_or("kind", "dense");
  std::string names;
  for (const LayerKindRow& row : layer_kinds()) {
    if (row.name == name) return row;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  fields.fail("kind", fmt::format("is \"{}\"", name), names);
}

void read_choice(const Fields& fields, const LayerField& field, LayerSpec& layer) {
  const std::string name(field.name), text = fields.text(name.c_str());
  const auto found = std::find(field.choices.begin(), field.choices.end(), text);
  if (found == field.choices.end())
    fields.fail(name.c_str(), fmt::format("is \"{}\"", text), fmt::format("one of {}", fmt::join(field.choices, ", ")));
  field.choose(layer, found - field.choices.begin());
}

void read_layer_field(const Fields& fields, const LayerField& field, LayerSpec& layer) {
  const std::string name(field.name);
  if (!field.is_required && !fields.has(name.c_str())) return;
  if (field.integer) layer.*field.integer = fields.integer(name.c_str());
  if (field.boolean) layer.*field.boolean = fields.boolean(name.c_str());
  if (field.number) layer.*field.number = fields.number(name.c_str());
  if (field.choose) read_choice(fields, field, layer);
}

LayerSpec read_layer(const Fields& fields, bool is_last) {
  LayerSpec layer;
  const LayerKindRow& row = read_kind(fields);
  layer.kind = row.kind;
  std::vector<std::string> known{"kind"};
  for (const LayerField& field : row.fields) known.emplace_back(field.name);
  if (layer.kind == LayerKind::dense) known.insert(known.end(), {"activation", "dropout"});
  fields.refuse_unknown(known);
  for (const LayerField& field : row.fields) read_layer_field(fields, field, layer);
  if (layer.kind == LayerKind::dense) {
    // Hidden layers default to relu, the output layer to none: the only choice that validate() accepts there.
    layer.activation = read_activation(fields, is_last ? Activation::none : Activation::relu);
    layer.dropout = fields.number_or("dropout", 0.0);
  } else {
    layer.activation = Activation::none;
  }
  return layer;
}

json layer_json(const LayerSpec& layer) {
  const LayerKindRow& row = row_of(layer.kind);
  json object = json::object();
  if (layer.kind != LayerKind::dense) object["kind"] = row.name;
  for (const LayerField& field : row.fields) {
    if (!field.is_written(layer)) continue;
    json& value = object[std::string(field.name)];
    if (field.integer) value = layer.*field.integer;
    if (field.boolean) value = layer.*field.boolean;
    if (field.number) value = finite(layer.*field.number, field.name);
    if (field.chosen) value = field.choices[static_cast<size_t>(field.chosen(layer))];
  }
  if (layer.kind == LayerKind::dense) {
    object["activation"] = layer.activation == Activation::relu ? "relu" : "none";
    object["dropout"] = finite(layer.dropout, "dropout");
  }
  return object;
}

/// The name becomes an axis of every record and a column of every table.
std::string read_name(const Fields& fields) {
  constexpr size_t kLongestName = 200;
  std::string name = fields.text("name");
  if (name.empty()) fields.fail("name", "is empty", "a name for reports");
  if (name.size() > kLongestName)
    fields.fail("name", fmt::format("has {} bytes", name.size()), fmt::format("at most {}", kLongestName));
  return name;
}

ModelSpec model_of_file(const Fields& fields) {
  fields.require_version();
  fields.refuse_unknown({"version", "name", "input_width", "input_shape", "loss", "layers"});
  ModelSpec model;
  model.name = read_name(fields);
  if (fields.has("input_shape")) {
    const json& shape = fields.array("input_shape");
    for (size_t i = 0; i < shape.size(); ++i) {
      if (!shape[i].is_number_integer() || shape[i] < 1 || shape[i] > (int64_t{1} << 24))
        fields.fail("input_shape", fmt::format("has the extent {}", shape[i].dump()), "whole numbers from 1 to 2^24");
      model.input_shape.push_back(shape[i].get<int64_t>());
    }
    if (shape.empty() || shape.size() > 3)
      fields.fail("input_shape", fmt::format("has {} extents", shape.size()), "1 to 3");
    model.input_width = count_of(model.input_shape);
  }
  if (model.input_shape.empty() || fields.has("input_width")) model.input_width = fields.integer("input_width");
  model.loss = read_loss(fields);
  const json& layers = fields.array("layers");
  for (size_t i = 0; i < layers.size(); ++i) {
    model.layers.push_back(read_layer(fields.element(layers, "layers", i), i + 1 == layers.size()));
  }
  return model;
}

}  // namespace

ModelSpec model_from_json(std::string_view text, std::string_view origin) {
  const json document = parse_document(text, origin, Cause::usage);
  const Fields fields(document, std::string(origin), "", Cause::usage);
  ModelSpec model = fields.has("model_type") ? model_of_config(fields, origin) : model_of_file(fields);
  try {
    model.validate();
  } catch (const Error& e) {
    throw Error(e.cause(), fmt::format("{}: {}", origin, e.what()), e.remedy());
  }
  return model;
}

ModelSpec load_model(const std::string& path) { return model_from_json(read_file(path, Cause::usage), path); }

std::string model_to_json(const ModelSpec& model) {
  json layers = json::array();
  for (const LayerSpec& layer : model.layers) layers.push_back(layer_json(layer));
  json document{{"version", kSchemaVersion},
                {"name", model.name},
                {"input_width", model.input_width},
                {"loss", model.loss == LossKind::mse ? "mse" : "softmax_cross_entropy"},
                {"layers", layers}};
  if (!model.input_shape.empty()) document["input_shape"] = model.input_shape;
  return dump(document, 2);
}

}  // namespace amdahl
