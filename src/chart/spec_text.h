// Specification templates: JSON text with placeholders, so that they look like Vega-Lite's own documents. Private to
// this folder.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "chart/chart.h"

namespace amdahl {

/// Parses `text` and replaces every string value "$name" with `values["name"]`. Error{internal} for a placeholder
/// without a value and for invalid JSON.
nlohmann::ordered_json filled(std::string_view text, const std::map<std::string, nlohmann::ordered_json>& values);

/// Removes the layers of `spec` whose first filter, "isValid(datum.COLUMN)" or "datum.COLUMN == 'TEXT'", keeps no row
/// of `table`: a layer without rows would extend its axis to infinity.
void drop_empty_layers(nlohmann::ordered_json& spec, const DataTable& table);

}  // namespace amdahl
