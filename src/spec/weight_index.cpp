// {"metadata": {...}, "weight_map": {"tensor": "file", ...}}: which file of several holds a tensor.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {

std::vector<std::string> shards_from_json(std::string_view text, std::string_view origin) {
  const nlohmann::json document = parse_document(text, origin, Cause::data_corrupt);
  const Fields index(document, std::string(origin), "", Cause::data_corrupt);
  std::set<std::string> files;
  for (const auto& [tensor, file] : index.text_map("weight_map")) {
    if (file.empty() || file.find('/') != std::string::npos)
      index.fail("weight_map", fmt::format("has tensor '{}' in '{}'", tensor, file), "names of files beside it");
    files.insert(file);
  }
  if (files.empty()) index.fail("weight_map", "has no tensor");
  return {files.begin(), files.end()};
}

}  // namespace amdahl
