#include "train/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "base/digest.h"
#include "files/safetensors.h"

namespace amdahl {
namespace {

constexpr std::string_view kIdentity = "identity.", kDigest = "xxh3.", kVersion = "amdahl.checkpoint";
constexpr const char* kHeaderDigest = "checkpoint.digest";
constexpr const char* kCheckpointRemedy = "an earlier checkpoint";

[[noreturn]] void refuse_checkpoint(const std::string& origin, const std::string& what) {
  throw Error(Cause::data_corrupt, fmt::format("{}: {}", origin, what), kCheckpointRemedy);
}

/// Doubles without rounding.
std::string losses_text(const std::vector<double>& losses) {
  std::string text;
  for (const double loss : losses) text += fmt::format("{}{:a}", text.empty() ? "" : " ", loss);
  return text;
}

std::vector<double> losses_of(const std::string& text) {
  std::vector<double> losses;
  for (const char* at = text.c_str(); *at != '\0';) {
    char* end = nullptr;
    losses.push_back(std::strtod(at, &end));
    if (end == at) return {};
    at = *end == ' ' ? end + 1 : end;
  }
  return losses;
}

std::map<std::string, std::string> point_fields(const TrainingPoint& point) {
  return {{"step", std::to_string(point.step)},
          {"epoch", std::to_string(point.epoch)},
          {"epoch_step", std::to_string(point.epoch_step)},
          {"epoch_losses", losses_text(point.epoch_losses)}};
}

int64_t number_in(const std::map<std::string, std::string>& fields, const char* key, const std::string& origin) {
  const auto found = fields.find(key);
  int64_t number = -1;
  if (found != fields.end()) std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
  if (number < 0) refuse_checkpoint(origin, fmt::format("no whole number '{}' in its metadata", key));
  return number;
}

TrainingPoint point_of(const std::map<std::string, std::string>& fields, const std::string& origin) {
  TrainingPoint point{number_in(fields, "step", origin),
                      number_in(fields, "epoch", origin),
                      number_in(fields, "epoch_step", origin),
                      {}};
  if (const auto found = fields.find("epoch_losses"); found != fields.end())
    point.epoch_losses = losses_of(found->second);
  return point;
}

std::vector<SafeTensor> tensors_of(const Checkpoint& checkpoint) {
  std::vector<SafeTensor> tensors;
  for (const std::vector<NamedArray>* arrays : {&checkpoint.weights, &checkpoint.state})
    for (const NamedArray& array : *arrays) tensors.push_back(as_tensor(array));
  return tensors;
}

std::string_view bytes_of(const uint64_t& number) { return {reinterpret_cast<const char*>(&number), sizeof number}; }

/// A flipped bit anywhere in the header, or in this digest itself.
void check_header(const SafeTensors& file, std::string_view bytes, const std::string& origin) {
  const SafeTensor* digest = file.find(kHeaderDigest);
  if (!digest || digest->data.size() != sizeof(uint64_t))
    refuse_checkpoint(origin, fmt::format("it has no tensor '{}': it is no checkpoint", kHeaderDigest));
  const uint64_t expected = digest_of(bytes.substr(0, file.header_bytes));
  if (digest->data != bytes_of(expected))
    refuse_checkpoint(origin, fmt::format("its header was changed: its digest is {:016x}", expected));
}

}  // namespace

std::vector<std::string_view> checkpoint_pieces(const Checkpoint& checkpoint, std::vector<std::string>& storage) {
  std::map<std::string, std::string> metadata = point_fields(checkpoint.point);
  metadata.emplace("format", "pt");
  metadata.emplace(kVersion, "1");
  for (const auto& [key, value] : checkpoint.identity) metadata.emplace(std::string(kIdentity) + key, value);
  std::vector<SafeTensor> tensors = tensors_of(checkpoint);
  for (const SafeTensor& tensor : tensors)
    metadata.emplace(std::string(kDigest) + tensor.name, digest_text(tensor.data));
  const std::string room(sizeof(uint64_t), '\0');
  tensors.push_back({kHeaderDigest, "U64", {1}, room});
  storage = {safetensors_header(tensors, metadata)};
  const uint64_t digest = digest_of(storage[0]);
  storage.emplace_back(bytes_of(digest));
  std::vector<std::string_view> pieces{storage[0]};
  for (size_t i = 0; i + 1 < tensors.size(); ++i) pieces.push_back(tensors[i].data);
  pieces.push_back(storage[1]);
  return pieces;
}

Checkpoint parse_checkpoint(std::string_view bytes, const std::string& origin) {
  const SafeTensors file = parse_safetensors(bytes, origin);
  check_header(file, bytes, origin);
  const auto version = file.metadata.find(std::string(kVersion));
  if (version == file.metadata.end()) refuse_checkpoint(origin, "it is no checkpoint");
  if (version->second != "1")
    throw Error(Cause::version_refused,
                fmt::format("{}: checkpoints of version '{}' are not known", origin, version->second),
                "the version of amdahl that wrote it");
  Checkpoint checkpoint;
  checkpoint.point = point_of(file.metadata, origin);
  for (const auto& [key, value] : file.metadata)
    if (key.starts_with(kIdentity)) checkpoint.identity.emplace(key.substr(kIdentity.size()), value);
  for (const SafeTensor& tensor : file.tensors) {
    if (tensor.name == kHeaderDigest) continue;
    const auto digest = file.metadata.find(std::string(kDigest) + tensor.name);
    if (digest == file.metadata.end() || digest->second != digest_text(tensor.data))
      refuse_checkpoint(
          origin, fmt::format("tensor '{}' was changed: its digest is {}, not {}", tensor.name,
                              digest_text(tensor.data), digest == file.metadata.end() ? "there" : digest->second));
    const bool weight = tensor.name.find('/') == std::string::npos;
    (weight ? checkpoint.weights : checkpoint.state).push_back(as_array(tensor, origin));
  }
  return checkpoint;
}

std::string point_text(const TrainingPoint& point) {
  std::string text;
  for (const auto& [key, value] : point_fields(point)) text += fmt::format("{}={}\n", key, value);
  return text;
}

TrainingPoint point_from_text(const std::string& text) {
  std::map<std::string, std::string> fields;
  for (size_t begin = 0; begin < text.size();) {
    const size_t equals = text.find('=', begin), end = text.find('\n', begin);
    if (equals >= end || end == std::string::npos) break;
    fields.emplace(text.substr(begin, equals - begin), text.substr(equals + 1, end - equals - 1));
    begin = end + 1;
  }
  return point_of(fields, "the point of the training");
}

void require_same_training(const std::string& file, const std::map<std::string, std::string>& saved,
                           const std::map<std::string, std::string>& now) {
  std::vector<std::string> differences;
  for (const auto& [key, value] : now) {
    const auto found = saved.find(key);
    if (found == saved.end() || found->second != value)
      differences.push_back(fmt::format("{} was {} and is now '{}'", key,
                                        found == saved.end() ? "absent" : '\'' + found->second + '\'', value));
  }
  if (!differences.empty())
    throw Error(Cause::usage, fmt::format("{} is of another training: {}", file, fmt::join(differences, "; ")),
                "the model, data, batch and seed of before, or another `checkpoint_dir`");
}

}  // namespace amdahl
