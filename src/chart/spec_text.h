// Specifications are written as JSON text with holes, so that they read as Vega-Lite's own documents do. Private to
// this folder.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace amdahl {

/// `text` parsed, every string value "$name" replaced by `values["name"]`. Error{internal} for a hole without value and
/// for text that is no JSON.
nlohmann::ordered_json filled(std::string_view text, const std::map<std::string, nlohmann::ordered_json>& values);

}  // namespace amdahl
