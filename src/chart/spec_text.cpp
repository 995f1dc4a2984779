#include "chart/spec_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

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

// Whether some row passes the layer's filter; layers without a filter, or with another kind, are kept.
bool has_rows(const ordered_json& layer, const DataTable& table) {
  if (!layer.contains("transform") || !layer["transform"][0].contains("filter")) return true;
  const std::string filter = layer["transform"][0]["filter"].get<std::string>();
  static const std::regex valid(R"re(isValid\(datum\.(\w+)\))re"), equal(R"re(datum\.(\w+) == '([^']*)')re");
  std::smatch match;
  const bool any_value = std::regex_match(filter, match, valid);
  if (!any_value && !std::regex_match(filter, match, equal)) return true;
  const auto column = std::find_if(table.columns.begin(), table.columns.end(),
                                   [&](const TableColumn& c) { return c.name == match[1].str(); });
  if (column == table.columns.end()) return true;
  const auto index = static_cast<size_t>(column - table.columns.begin());
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const std::vector<TableValue>& row) {
    if (any_value) return !std::holds_alternative<std::monostate>(row[index]);
    const auto* text = std::get_if<std::string>(&row[index]);
    return text && *text == match[2].str();
  });
}

}  // namespace

void drop_empty_layers(ordered_json& spec, const DataTable& table) {
  ordered_json kept = ordered_json::array();
  for (const ordered_json& layer : spec["layer"])
    if (has_rows(layer, table)) kept.push_back(layer);
  spec["layer"] = std::move(kept);
}

ordered_json filled(std::string_view text, const std::map<std::string, ordered_json>& values) {
  ordered_json document = ordered_json::parse(text, nullptr, false);
  if (document.is_discarded()) throw Error(Cause::internal, "a chart's specification is no JSON", "report this");
  fill(document, values);
  return document;
}

}  // namespace amdahl
