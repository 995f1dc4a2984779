// From charts to JSON: the theme, a whole Vega-Lite document, and the data that a page carries.
#pragma once

#include <string>
#include <vector>

#include "chart/chart.h"

namespace amdahl {

enum class Scheme { light, dark };

/// Vega-Lite configuration: colours, type and lines of every chart. Styles that specifications may name: "limit" (what
/// cannot be passed, dashed), "limit-label", "interval", "mark-label", "marker" (a place on an axis, dotted).
std::string chart_config_json(Scheme scheme);

/// The specification with its data and configuration inside: what a renderer of single files takes.
std::string chart_document(const Chart& chart, Scheme scheme);

/// {"config": {"light", "dark"}, "charts": [{"id", "origin", "least_width", "spec", "columns": [{"name", "title"}],
/// "rows":
/// [[...]]}]}. Error{internal} when a specification is no JSON or a row has another number of values than there are
/// columns.
std::string charts_json(const std::vector<const Chart*>& charts);

/// `items`, each JSON already, as one array.
std::string json_array(const std::vector<std::string>& items);
/// A JSON string.
std::string json_text(const std::string& text);

/// "measured", "emulated", "modelled".
std::string_view origin_text(Origin origin);

}  // namespace amdahl
