// Model files: {"version": 1, "name": ..., "input_width": ..., "loss": ..., "layers": [{"units": ...}, ...]}.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "files/whole_file.h"
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

/// The name becomes an axis of every record and a column of every table.
std::string read_name(const Fields& fields) {
  constexpr size_t kLongestName = 200;
  std::string name = fields.text("name");
  if (name.empty()) fields.fail("name", "is empty", "a name for reports");
  if (name.size() > kLongestName)
    fields.fail("name", fmt::format("has {} bytes", name.size()), fmt::format("at most {}", kLongestName));
  return name;
}

}  // namespace

ModelSpec model_from_json(std::string_view text, std::string_view origin) {
  const json document = parse_document(text, origin, Cause::usage);
  const Fields fields(document, std::string(origin), "", Cause::usage);
  fields.require_version();
  fields.refuse_unknown({"version", "name", "input_width", "loss", "layers"});
  ModelSpec model;
  model.name = read_name(fields);
  model.input_width = fields.integer("input_width");
  model.loss = read_loss(fields);
  const json& layers = fields.array("layers");
  for (size_t i = 0; i < layers.size(); ++i) {
    const Fields layer = fields.element(layers, "layers", i);
    layer.refuse_unknown({"units", "activation", "dropout", "bias"});
    DenseSpec dense;
    dense.units = layer.integer("units");
    // Hidden layers default to relu, the output layer to none: the only choice that validate() accepts there.
    dense.activation = read_activation(layer, i + 1 < layers.size() ? Activation::relu : Activation::none);
    dense.dropout = layer.number_or("dropout", 0.0);
    dense.bias = layer.boolean_or("bias", true);
    model.layers.push_back(dense);
  }
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
  for (const DenseSpec& layer : model.layers)
    layers.push_back({{"units", layer.units},
                      {"activation", layer.activation == Activation::relu ? "relu" : "none"},
                      {"dropout", finite(layer.dropout, "dropout")},
                      {"bias", layer.bias}});
  const json document{{"version", kSchemaVersion},
                      {"name", model.name},
                      {"input_width", model.input_width},
                      {"loss", model.loss == LossKind::mse ? "mse" : "softmax_cross_entropy"},
                      {"layers", layers}};
  return dump(document, 2);
}

}  // namespace amdahl
