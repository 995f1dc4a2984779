// Serialises charts: the theme, complete Vega-Lite documents, and the chart data of a page.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "chart/chart.h"

namespace amdahl {

enum class Scheme { light, dark };

/// A self-contained document with data and configuration (colours, fonts and lines), for renderers of single files.
/// Styles that specifications may use: "limit" (upper bound, dashed), "limit-label", "interval", "mark-label", "marker"
/// (a position on an axis, dotted).
std::string chart_document(const Chart& chart, Scheme scheme);

/// {"config": {"light", "dark"}, "charts": [{"id", "origin", "least_width", "spec", "columns": [{"name", "title"}],
/// "rows": [[...]]}]}. Error{internal} when a specification is not valid JSON or the number of values in a row differs
/// from the number of columns.
std::string charts_json(const std::vector<const Chart*>& charts);

/// A part of a step and its colour on light and dark pages; see step_part_scale().
struct StepPart {
  const char *name, *light, *dark;
};
std::span<const StepPart> step_parts();

/// Joins `items`, each of them JSON, into one array.
std::string json_array(const std::vector<std::string>& items);
/// `text` as a JSON string literal.
std::string json_text(const std::string& text);

/// "measured", "emulated", "modelled".
std::string_view origin_text(Origin origin);

}  // namespace amdahl
