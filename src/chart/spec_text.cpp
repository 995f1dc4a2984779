#include "chart/spec_text.h"

#include <fmt/format.h>

#include "amdahl/error.h"

namespace amdahl {
namespace {

using nlohmann::ordered_json;

void fill(ordered_json& node, const std::map<std::string, ordered_json>& values) {
  if (node.is_structured()) {
    for (ordered_json& child : node) fill(child, values);
    return;
  }
  if (!node.is_string()) return;
  const std::string name = node.get<std::string>();
  if (name.empty() || name[0] != '$') return;
  const auto found = values.find(name.substr(1));
  if (found == values.end())
    throw Error(Cause::internal, fmt::format("a chart's specification has no value for {}", name), "report this");
  node = ordered_json(found->second);
}

}  // namespace

ordered_json filled(std::string_view text, const std::map<std::string, ordered_json>& values) {
  ordered_json document = ordered_json::parse(text, nullptr, false);
  if (document.is_discarded()) throw Error(Cause::internal, "a chart's specification is no JSON", "report this");
  fill(document, values);
  return document;
}

}  // namespace amdahl
