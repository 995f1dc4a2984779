// Specifications are written as JSON text with holes, so that they read as Vega-Lite's own documents do. Private to
// this folder.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "chart/chart.h"

namespace amdahl {

/// `text` parsed, every string value "$name" replaced by `values["name"]`. Error{internal} for a hole without value and
/// for text that is no JSON.
nlohmann::ordered_json filled(std::string_view text, const std::map<std::string, nlohmann::ordered_json>& values);

/// Removes the layers of `spec` whose first filter, "isValid(datum.COLUMN)" or "datum.COLUMN == 'TEXT'", keeps no row
/// of `table`: a layer without rows would stretch its axis to infinity.
void drop_empty_layers(nlohmann::ordered_json& spec, const DataTable& table);

}  // namespace amdahl
