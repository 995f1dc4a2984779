#include "files/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/small_floats.h"
#include "files/safetensors_header.h"
#include "files/scalars.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

constexpr size_t kLengthBytes = 8, kTensorAlignment = 64;
constexpr const char* kTensorsRemedy = "the file as it was written, complete";

struct TypeRow {
  std::string_view name;
  size_t bytes;
};
constexpr TypeRow kTypes[] = {{"F64", 8}, {"F32", 4}, {"F16", 2},  {"BF16", 2},    {"I64", 8},
                              {"I32", 4}, {"I16", 2}, {"I8", 1},   {"U8", 1},      {"U16", 2},
                              {"U32", 4}, {"U64", 8}, {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}};

[[noreturn]] void refuse_tensors(const std::string& origin, const std::string& what) {
  throw Error(Cause::data_corrupt, fmt::format("{}: {}", origin, what), kTensorsRemedy);
}

void check_tensor(const HeaderEntry& entry, size_t data_bytes, const std::string& origin) {
  const auto* type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& row) { return row.name == entry.dtype; });
  if (type == std::end(kTypes))
    refuse_tensors(origin, fmt::format("tensor '{}' has elements of the unknown type '{}'", entry.name, entry.dtype));
  size_t expected = type->bytes;
  bool fits = true;
  for (const int64_t extent : entry.shape)
    fits = fits && multiply_sizes(expected, static_cast<size_t>(extent), expected);
  if (entry.begin > entry.end || entry.end > data_bytes)
    refuse_tensors(origin, fmt::format("tensor '{}' lies in bytes [{}, {}) of {}{}", entry.name, entry.begin, entry.end,
                                       data_bytes, entry.end > data_bytes ? ": the file is cut off" : ""));
  if (!fits || expected != entry.end - entry.begin)
    refuse_tensors(origin, fmt::format("tensor '{}' of {} [{}] has {} bytes", entry.name, entry.dtype,
                                       fmt::join(entry.shape, ", "), entry.end - entry.begin));
}

/// The tensors cover all data, each byte once.
void check_cover(const std::vector<HeaderEntry>& entries, size_t data_bytes, const std::string& origin) {
  size_t at = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin != at)
      refuse_tensors(origin,
                     fmt::format("tensor '{}' begins at byte {} of the data, {} byte {}", entry.name, entry.begin,
                                 entry.begin < at ? "and overlaps another one, up to" : "after a gap from", at));
    at = entry.end;
  }
  if (at != data_bytes)
    refuse_tensors(origin, fmt::format("the tensors end at byte {} of the data, and the file at {}", at, data_bytes));
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

template <class Small>
std::vector<float> widened(std::string_view data) {
  std::vector<float> values(data.size() / sizeof(Small));
  for (size_t i = 0; i < values.size(); ++i) {
    Small small{};
    std::memcpy(&small, data.data() + i * sizeof small, sizeof small);
    values[i] = to_float(small);
  }
  return values;
}

}  // namespace

const SafeTensor* SafeTensors::find(std::string_view name) const {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const SafeTensor& tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

SafeTensors parse_safetensors(std::string_view bytes, const std::string& origin) {
  if (bytes.size() < kLengthBytes)
    refuse_tensors(origin, fmt::format("byte {}: the file is cut off within the length of its header", bytes.size()));
  const uint64_t length = little_endian(bytes);
  if (length > bytes.size() - kLengthBytes)
    refuse_tensors(
        origin, fmt::format("byte {}: the header of {} bytes goes beyond the end of the file", bytes.size(), length));
  SafeTensors file;
  file.header_bytes = kLengthBytes + static_cast<size_t>(length);
  const std::string_view data = bytes.substr(file.header_bytes);
  SafetensorsHeader header = scan_safetensors_header(bytes.substr(kLengthBytes, length), kLengthBytes, origin);
  std::stable_sort(header.entries.begin(), header.entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::set<std::string_view> names;
  for (const HeaderEntry& entry : header.entries) {
    if (!names.insert(entry.name).second) refuse_tensors(origin, fmt::format("two tensors are named '{}'", entry.name));
    check_tensor(entry, data.size(), origin);
  }
  check_cover(header.entries, data.size(), origin);
  for (HeaderEntry& entry : header.entries)
    file.tensors.push_back({std::move(entry.name), std::move(entry.dtype), std::move(entry.shape),
                            data.substr(entry.begin, entry.end - entry.begin)});
  file.metadata = std::move(header.metadata);
  return file;
}

std::string safetensors_header(const std::vector<SafeTensor>& tensors,
                               const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  std::set<std::string_view> names{kMetadataName};
  if (!metadata.empty()) {
    text += fmt::format("\"{}\":{{", kMetadataName);
    for (const auto& [key, value] : metadata)
      text += fmt::format("{}{}:{}", text.back() == '{' ? "" : ",", quote_json(key), quote_json(value));
    text += "}";
  }
  size_t at = 0;
  for (const SafeTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      throw Error(Cause::usage, fmt::format("two tensors named '{}'", tensor.name), "a name for each tensor");
    text +=
        fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", text.size() == 1 ? "" : ",",
                    quote_json(tensor.name), tensor.dtype, fmt::join(tensor.shape, ","), at, at + tensor.data.size());
    at += tensor.data.size();
  }
  text += "}";
  text.append((kTensorAlignment - (kLengthBytes + text.size()) % kTensorAlignment) % kTensorAlignment, ' ');
  const uint64_t length = text.size();
  std::string header(sizeof length, '\0');
  std::memcpy(header.data(), &length, sizeof length);
  return header + text;
}

void save_safetensors(const std::filesystem::path& path, const std::vector<NamedArray>& arrays,
                      const std::map<std::string, std::string>& metadata) {
  if (path.extension() != ".safetensors")
    throw Error(Cause::usage, fmt::format("'{}' does not end in .safetensors", path.string()),
                "a name like model.safetensors");
  std::vector<SafeTensor> tensors;
  for (const NamedArray& array : arrays) tensors.push_back(as_tensor(array));
  const std::string header = safetensors_header(tensors, metadata);
  std::vector<std::string_view> pieces{header};
  for (const SafeTensor& tensor : tensors) pieces.push_back(tensor.data);
  write_atomic(path, pieces);
}

SafeTensor as_tensor(const NamedArray& array) {
  return {array.name,
          "F32",
          array.shape,
          {reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(float)}};
}

std::vector<float> floats_of(const SafeTensor& tensor, const std::string& origin) {
  if (tensor.dtype == "BF16") return widened<Bfloat>(tensor.data);
  if (tensor.dtype == "F16") return widened<Half>(tensor.data);
  if (tensor.dtype != "F32")
    refuse_tensors(origin, fmt::format("tensor '{}' is {} and not F32, F16 or BF16", tensor.name, tensor.dtype));
  return as_array(tensor, origin).values;
}

NamedArray as_array(const SafeTensor& tensor, const std::string& origin) {
  if (tensor.dtype != "F32")
    refuse_tensors(origin, fmt::format("tensor '{}' is {} and not F32", tensor.name, tensor.dtype));
  NamedArray array{tensor.name, tensor.shape, std::vector<float>(tensor.data.size() / sizeof(float))};
  if (!array.values.empty()) std::memcpy(array.values.data(), tensor.data.data(), tensor.data.size());
  return array;
}

}  // namespace amdahl
