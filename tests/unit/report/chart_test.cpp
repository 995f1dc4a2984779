// Charts and the parts of pages by themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "chart/bar_chart.h"
#include "chart/heat_map.h"
#include "chart/line_chart.h"
#include "chart/spec_parts.h"
#include "page_checks.h"
#include "report/page/page_parts.h"
#include "report/page/table_text.h"

namespace amdahl {
namespace {

using nlohmann::json;
using test::column;
using test::expect_sound;
using test::uniform;

TEST(FabricCharts, NothingToDrawIsNoChart) {
  EXPECT_FALSE(line_chart({}).has_value());
  EXPECT_FALSE(heat_map_chart({}).has_value());
  EXPECT_FALSE(bar_chart({}).has_value());
  LinePlot plot;
  plot.series = {{"a", "", Origin::measured, {{0, 1, std::nullopt, 1}, {1, -1, std::nullopt, 1}}}};
  EXPECT_FALSE(line_chart(plot).has_value()) << "no logarithm has a place for these";
}

TEST(FabricCharts, OneXValueIsBars) {
  LinePlot plot;
  plot.id = "x", plot.title = "Rate against size", plot.title_at_one = "Rate at {}", plot.summary = "x.";
  plot.x = {"bytes", "Size"}, plot.y = {"rate", "Rate"}, plot.series_title = "Line", plot.interval_title = "CI";
  plot.series = {{"a", "", Origin::measured, {{1024, 3, std::nullopt, 1}}},
                 {"b", "", Origin::measured, {{1024, 2, std::nullopt, 1}}},
                 {"b", "", Origin::modelled, {{1024, 4, std::nullopt, 0}}}};
  const Chart bars = *line_chart(plot);
  expect_sound(bars);
  EXPECT_EQ(bars.title, "Rate at 1 KiB");
  EXPECT_EQ(bars.table.rows.size(), 2u) << "what is modelled bounds the bar of its name";
  EXPECT_EQ(std::get<double>(column(bars, "bound")[1]), 4);
  EXPECT_EQ(json::parse(bars.spec)["layer"][0]["mark"]["type"], "bar");
  plot.series[0].points.push_back({2048, 5, std::nullopt, 1});
  EXPECT_EQ(json::parse(line_chart(plot)->spec)["layer"][0]["mark"], "line");
}

TEST(FabricCharts, LogarithmicTicksLieWithinTheirAxis) {
  for (uint32_t i = 0; i < 400; ++i) {
    const double low = std::pow(10, uniform(3 * i, -6, 6)), high = low * std::pow(10, uniform(3 * i + 1, 0.02, 12));
    const std::vector<double> ticks = log_ticks(low, high);
    ASSERT_GE(ticks.size(), 2u) << low << " to " << high;
    EXPECT_LE(ticks.size(), 13u) << low << " to " << high;
    EXPECT_TRUE(std::is_sorted(ticks.begin(), ticks.end()));
    EXPECT_GE(ticks.front(), low * (1 - 1e-6));
    EXPECT_LE(ticks.back(), high * (1 + 1e-6));
  }
}

TEST(FabricCharts, LogarithmicTicksCoverTheirAxis) {
  // Of 2.8 decades only two powers of ten lie within: linear ticks left the lower two decades without one.
  const std::vector<double> ticks = log_ticks(0.0145, 9.6);
  EXPECT_LE(ticks.front(), 0.03);
  EXPECT_GE(ticks.back(), 4.9);
}

TEST(FabricCharts, ShortBarsHaveTheirNumberBehindThem) {
  BarPlot plot{"x", "x", "x.", {"way", "Way"}, {"rate", "Rate"}, "", "CI", "Bound", false, {}};
  plot.bars = {{"a", "", 200, std::nullopt, std::nullopt, 10, Origin::measured},
               {"b", "", 3, std::nullopt, std::nullopt, 10, Origin::measured}};
  size_t texts = 0;
  const json spec = json::parse(bar_chart(plot)->spec);
  for (const json& layer : spec["layer"]) texts += layer["mark"].is_object() && layer["mark"]["type"] == "text" ? 1 : 0;
  EXPECT_EQ(texts, 2u) << "numbers of long and of short bars";
}

TEST(FabricCharts, BarsEndWithinTheirAxis) {
  BarPlot plot{"x", "x", "x.", {"way", "Way"}, {"rate", "Rate"}, "", "CI", "Bound", false, {}};
  plot.bars = {{"a", "", 45318, Interval{45254, 45382}, 46000, 10, Origin::measured}};
  const json scale = json::parse(bar_chart(plot)->spec)["layer"][0]["encoding"]["x"]["scale"];
  EXPECT_EQ(scale["domain"], json({0, 50000}));
}

TEST(FabricCharts, BarsOfTwoOriginsHaveBoth) {
  BarPlot plot{"x", "x", "x.", {"way", "Way"}, {"rate", "Rate"}, "", "CI", "Bound", false, {}};
  plot.bars = {{"a", "", 1, {}, {}, 0, Origin::modelled}};
  EXPECT_EQ(bar_chart(plot)->origin, Origin::modelled);
  EXPECT_FALSE(bar_chart(plot)->with_modelled);
  plot.bars.push_back({"b", "", 2, {}, {}, 3, Origin::measured});
  EXPECT_EQ(bar_chart(plot)->origin, Origin::measured);
  EXPECT_TRUE(bar_chart(plot)->with_modelled);
  plot.bars.push_back({"c", "", 2, {}, {}, 3, Origin::emulated});
  EXPECT_EQ(bar_chart(plot)->origin, Origin::emulated);
}

TEST(FabricCharts, ALineWithoutPointsHasNoPointInTheLegend) {
  LinePlot plot;
  plot.id = "x", plot.title = "x", plot.summary = "x.", plot.series_title = "Line", plot.interval_title = "CI";
  plot.x = {"bytes", "Size"}, plot.y = {"rate", "Rate"}, plot.joined = false;
  plot.series = {{"a", "", Origin::measured, {{1, 3, {}, 1}, {2, 3, {}, 1}}},
                 {"b", "", Origin::measured, {{1, 2, {}, 1}}},
                 {"a = b", "", Origin::modelled, {{1, 1, {}, 0}, {2, 2, {}, 0}}}};
  const json layers = json::parse(line_chart(plot)->spec)["layer"];
  for (const json& layer : layers) EXPECT_EQ(layer["encoding"]["color"]["legend"]["values"], json({"a", "b"})) << layer;
  EXPECT_EQ(layers[0]["encoding"]["color"]["scale"]["domain"], json({"a", "b", "a = b"}));
}

TEST(FabricCharts, HeatMapsAskForTheWidthOfTheirWords) {
  HeatMap map;
  map.id = "x", map.title = "x", map.summary = "x.", map.rows = {"nccl graph symmetric"};
  map.row = {"transport", "Transport"}, map.column = {"bytes", "Size"}, map.value = {"percent", "Behind"};
  for (int64_t size = 1; size <= 7; ++size) map.cells.push_back({map.rows[0], size << 10, 1, "+24.6 %", "", {}});
  const Chart chart = *heat_map_chart(map);
  EXPECT_GE(chart.least_width, 20 * 6 + 7 * 50);
  EXPECT_EQ(json::parse(chart.spec)["layer"][0]["encoding"]["x"]["axis"]["labelOverlap"], false);
}

TEST(PageParts, WhatAllRowsShareIsSaidOnce) {
  TextTable table = text_table(
      {{{"op", "Operation"}, {"n", "n"}, {"way", "Way"}, {"rate", "Rate"}},
       {{std::string("fuse"), int64_t{5}, std::string(), 1.0}, {std::string("fuse"), int64_t{7}, std::string(), 2.0}}});
  EXPECT_EQ(take_common(table), "Operation: fuse");
  EXPECT_EQ(table.head, (std::vector<std::string>{"n", "Rate"}));
  for (const auto& row : table.rows) EXPECT_EQ(row.size(), 2u);
}

TEST(FabricCharts, OriginsHaveALegendOnceOneIsNotMeasured) {
  LinePlot plot;
  plot.id = "x", plot.title = "x", plot.summary = "x.";
  plot.x = {"bytes", "Size"}, plot.y = {"rate", "Rate"}, plot.series_title = "Line", plot.interval_title = "CI";
  plot.series = {{"a", "", Origin::measured, {{1, 1, std::nullopt, 1}, {2, 1, std::nullopt, 1}}}};
  const auto legend = [](const Chart& chart) {
    return json::parse(chart.spec)["layer"][0]["encoding"]["strokeDash"]["legend"];
  };
  EXPECT_TRUE(legend(*line_chart(plot)).is_null());
  plot.series.push_back({"b", "", Origin::emulated, {{1, 2, std::nullopt, 1}, {2, 2, std::nullopt, 1}}});
  const Chart both = *line_chart(plot);
  EXPECT_EQ(legend(both)["values"], json({"measured", "emulated"}));
  EXPECT_EQ(both.origin, Origin::emulated);
  expect_sound(both);
}

}  // namespace
}  // namespace amdahl
