#include "setup/weight_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "files/safetensors.h"
#include "files/whole_file.h"
#include "model/parameter_layout.h"
#include "spec/json.h"
#include "train/foreign_names.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexEnding = ".index.json";

/// The files of a path, in order.
std::vector<fs::path> files_of(const fs::path& path) {
  fs::path file = path;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    file = path / "model.safetensors";
    const fs::path index = file.string() + kIndexEnding;
    if (!fs::exists(file, ignored) && fs::exists(index, ignored)) file = index;
    if (!fs::exists(file, ignored))
      throw Error(
          Cause::usage,
          fmt::format("`weights`: {} has neither model.safetensors nor model.safetensors.index.json", path.string()),
          "a folder or file of safetensors");
  }
  if (!file.string().ends_with(kIndexEnding)) return {file};
  std::vector<fs::path> files;
  for (const std::string& name : shards_from_json(read_file(file, Cause::usage), file.string())) {
    files.push_back(file.parent_path() / name);
    if (!fs::exists(files.back(), ignored))
      throw Error(Cause::data_corrupt, fmt::format("{}: its shard {} is not there", file.string(), name),
                  "all files of the weights in one folder");
  }
  return files;
}

/// The parts by the names that the file has.
class WeightReader {
 public:
  WeightReader(const ModelSpec& model, std::string origin)
      : model_(model), origin_(std::move(origin)), parameters_(static_cast<size_t>(make_layout(model).num_floats)) {}

  void read(const fs::path& path) {
    const std::string bytes = read_file(path, Cause::usage, kMostDataBytes);
    const SafeTensors file = parse_safetensors(bytes, path.string());
    if (parts_.empty()) choose_names(file);
    for (const SafeTensor& tensor : file.tensors) {
      const auto found = places_.find(tensor.name);
      if (found == places_.end() || !parts_[found->second]) continue;
      const WeightPart& part = *parts_[found->second];
      if (tensor.shape != part.shape)
        refuse(fmt::format("{}: tensor '{}' is [{}], and model '{}' has [{}]", path.string(), tensor.name,
                           fmt::join(tensor.shape, ", "), model_.name, fmt::join(part.shape, ", ")));
      place_part(part, floats_of(tensor, path.string()), parameters_);
      parts_[found->second].reset();
    }
  }

  std::vector<float> finish() {
    for (const std::optional<WeightPart>& part : parts_)
      if (part) refuse(fmt::format("{}: tensor '{}' of model '{}' is not there", origin_, part->name, model_.name));
    return std::move(parameters_);
  }

 private:
  void choose_names(const SafeTensors& file) {
    std::vector<WeightPart> parts = own_parts(model_);
    if (std::none_of(parts.begin(), parts.end(), [&](const WeightPart& part) { return file.find(part.name); }))
      parts = foreign_parts(model_);
    for (WeightPart& part : parts) {
      places_[part.name] = places_[part.short_name] = parts_.size();
      parts_.emplace_back(std::move(part));
    }
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Cause::data_corrupt, what, "the weights of this model");
  }

  const ModelSpec& model_;
  std::string origin_;
  std::vector<float> parameters_;
  std::vector<std::optional<WeightPart>> parts_;  // those that are missing so far
  std::map<std::string, size_t> places_;          // by name
};

}  // namespace

std::vector<float> read_weights(const ModelSpec& model, const std::string& path) {
  WeightReader reader(model, path);
  for (const fs::path& file : files_of(path)) reader.read(file);
  return reader.finish();
}

}  // namespace amdahl
