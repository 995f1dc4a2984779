#include "chart/document.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace amdahl {
namespace {

using nlohmann::ordered_json;

ordered_json value_json(const TableValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* number = std::get_if<double>(&value); number && std::isfinite(*number)) return *number;
  return nullptr;
}

void require_columns(const Chart& chart, const std::vector<TableValue>& row) {
  if (row.size() != chart.table.columns.size())
    throw Error(
        Cause::internal,
        fmt::format("chart {}: a row of {} values under {} columns", chart.id, row.size(), chart.table.columns.size()),
        "report this with the run folder");
}

ordered_json spec_json(const Chart& chart) {
  ordered_json spec = ordered_json::parse(chart.spec, nullptr, false);
  if (!spec.is_object())
    throw Error(Cause::internal, fmt::format("chart {}: its specification is no JSON object", chart.id),
                "report this with the run folder");
  return spec;
}

struct Palette {
  const char *ink, *soft, *grid, *paper;
  std::vector<const char*> category;
  double ramp_from, ramp_to;  // range of the colour scheme "plasma" that contrasts with the background
};

// Category colours for colour-blind readers (after Okabe and Ito 2008); shapes repeat the distinction.
const Palette& palette_of(Scheme scheme) {
  static const Palette light{"#1b2430",
                             "#5a6675",
                             "#e4e8ee",
                             "#ffffff",
                             {"#2166c4", "#d9681d", "#14866a", "#a8428f", "#8a6a10", "#566476", "#c03535", "#0f8fa8"},
                             0.05,
                             0.82};
  static const Palette dark{"#e6ebf2",
                            "#a2afc0",
                            "#2b3542",
                            "#141a22",
                            {"#6ea8ff", "#ffa25e", "#4ccfa9", "#e38bd0", "#d9b64c", "#a5b3c6", "#ff8080", "#5cd3ea"},
                            0.3,
                            1.0};
  return scheme == Scheme::light ? light : dark;
}

// Compute is blue, communication warm, waiting and gaps are brown and grey: what is lost stands out.
constexpr StepPart kStepParts[] = {
    {"forward", "#17509e", "#4f8ff0"},
    {"backward", "#6fa3e6", "#a3c6ff"},
    {"compute", "#2f74cc", "#78abff"},
    {"other compute", "#0f8fa8", "#5cd3ea"},
    {"optimizer", "#14866a", "#4ccfa9"},
    {"communication", "#d9681d", "#ffa25e"},
    {"exposed communication", "#d9681d", "#ffa25e"},
    {"tp communication", "#a8428f", "#e38bd0"},
    {"pp communication", "#c03535", "#ff8080"},
    {"waiting", "#b08a1e", "#d9b64c"},
    {"launch gaps and input", "#566476", "#a5b3c6"},
    {"input", "#566476", "#a5b3c6"},
    {"unexplained", "#b4bcc8", "#5b6675"},
};

ordered_json config_of(Scheme scheme) {
  const Palette& colours = palette_of(scheme);
  const char* font = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";
  ordered_json config;
  // The page gives each chart one text alternative; screen readers must not read hundreds of marks.
  config["aria"] = false;
  config["mark"] = {{"aria", false}, {"color", colours.category.front()}};
  config["background"] = colours.paper;
  config["font"] = font;
  config["axis"] = {{"aria", false},
                    {"labelColor", colours.soft},
                    {"titleColor", colours.ink},
                    {"domainColor", colours.soft},
                    {"tickColor", colours.grid},
                    {"gridColor", colours.grid},
                    {"labelFontSize", 11.5},
                    {"titleFontSize", 12},
                    {"titleFontWeight", 600},
                    {"titlePadding", 8},
                    {"labelLimit", 260},
                    {"tickSize", 4}};
  config["legend"] = {{"aria", false},
                      {"labelColor", colours.soft},
                      {"symbolBaseFillColor", colours.soft},
                      {"titleColor", colours.ink},
                      {"labelFontSize", 11.5},
                      {"titleFontSize", 12},
                      {"orient", "bottom"},
                      {"columns", 4},
                      {"titleFontWeight", 600},
                      {"labelLimit", 260},
                      {"symbolStrokeWidth", 2},
                      {"layout", {{"bottom", {{"direction", "vertical"}, {"anchor", "start"}}}}}};
  config["header"] = {{"aria", false},
                      {"labelColor", colours.ink},
                      {"labelFontWeight", 600},
                      {"labelFontSize", 12},
                      {"titleColor", colours.soft}};
  config["title"] = {{"aria", false}, {"color", colours.ink}};
  config["view"] = {{"stroke", nullptr}, {"continuousWidth", 460}, {"continuousHeight", 260}};
  config["range"] = {{"category", colours.category},
                     {"ordinal", {{"scheme", "plasma"}, {"extent", {colours.ramp_to, colours.ramp_from}}}}};
  for (const StepPart& part : kStepParts)
    config["range"]["step_part"].push_back(scheme == Scheme::light ? part.light : part.dark);
  config["line"] = {{"strokeWidth", 2}};
  config["point"] = {{"filled", true}, {"size", 55}, {"opacity", 1}};
  config["text"] = {{"color", colours.ink}, {"fontSize", 11.5}};
  config["style"] = {{"limit", {{"color", colours.soft}, {"strokeDash", {5, 4}}, {"strokeWidth", 1.5}}},
                     {"limit-label", {{"color", colours.soft}, {"fontSize", 11.5}, {"fontStyle", "italic"}}},
                     {"interval", {{"strokeWidth", 1.5}, {"opacity", 0.75}}},
                     {"mark-label", {{"color", colours.ink}}},
                     {"marker", {{"color", colours.ink}, {"strokeDash", {1, 3}}, {"strokeWidth", 1.5}}},
                     {"total", {{"color", colours.ink}, {"strokeWidth", 2}}},
                     {"outlier", {{"color", scheme == Scheme::light ? "#c03535" : "#ff8080"}, {"strokeWidth", 1.5}}},
                     {"bar-words", {{"color", scheme == Scheme::light ? "#ffffff" : "#10161d"}, {"fontSize", 11}}},
                     {"pale-bar-words", {{"color", "#10161d"}, {"fontSize", 11}}},
                     {"outlier-label", {{"color", scheme == Scheme::light ? "#c03535" : "#ff8080"}, {"fontSize", 11}}}};
  return config;
}

std::string dumped(const ordered_json& document) {
  return document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

std::string chart_document(const Chart& chart, Scheme scheme) {
  ordered_json spec = spec_json(chart);
  ordered_json rows = ordered_json::array();
  for (const std::vector<TableValue>& row : chart.table.rows) {
    require_columns(chart, row);
    ordered_json object = ordered_json::object();
    for (size_t i = 0; i < row.size(); ++i) object[chart.table.columns[i].name] = value_json(row[i]);
    rows.push_back(std::move(object));
  }
  spec["data"] = {{"name", "table"}};
  spec["datasets"] = {{"table", std::move(rows)}};
  spec["config"] = config_of(scheme);
  return dumped(spec);
}

std::string charts_json(const std::vector<const Chart*>& charts) {
  ordered_json document;
  document["config"] = {{"light", config_of(Scheme::light)}, {"dark", config_of(Scheme::dark)}};
  document["charts"] = ordered_json::array();
  for (const Chart* chart : charts) {
    ordered_json columns = ordered_json::array(), rows = ordered_json::array();
    for (const TableColumn& column : chart->table.columns)
      columns.push_back({{"name", column.name}, {"title", column.title}});
    for (const std::vector<TableValue>& row : chart->table.rows) {
      require_columns(*chart, row);
      ordered_json values = ordered_json::array();
      for (const TableValue& value : row) values.push_back(value_json(value));
      rows.push_back(std::move(values));
    }
    document["charts"].push_back({{"id", chart->id},
                                  {"origin", origin_text(chart->origin)},
                                  {"least_width", chart->least_width},
                                  {"spec", spec_json(*chart)},
                                  {"columns", std::move(columns)},
                                  {"rows", std::move(rows)}});
  }
  return dumped(document);
}

std::span<const StepPart> step_parts() { return kStepParts; }

std::string json_array(const std::vector<std::string>& items) { return fmt::format("[{}]", fmt::join(items, ",")); }

std::string json_text(const std::string& text) { return dumped(ordered_json(text)); }

std::string_view origin_text(Origin origin) {
  switch (origin) {
    case Origin::emulated:
      return "emulated";
    case Origin::modelled:
      return "modelled";
    case Origin::measured:
      break;
  }
  return "measured";
}

}  // namespace amdahl
