// What every page and chart must be, and what tests look for in them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/philox.h"
#include "report/page/page.h"

namespace amdahl::test {

/// Uniform in [low, high), the same for the same index.
inline double uniform(uint32_t index, double low, double high, uint64_t stream = 7) {
  return low + (high - low) * (philox(stream, index, 0, 0, 0).v[0] / 4294967296.0);
}

/// Index of a chart's column.
inline size_t column_index(const Chart& chart, const std::string& name) {
  for (size_t i = 0; i < chart.table.columns.size(); ++i)
    if (chart.table.columns[i].name == name) return i;
  ADD_FAILURE() << chart.id << " has no column " << name;
  return 0;
}

// ---- what every chart must be ----

inline void each_field(const nlohmann::json& node, const std::function<void(const std::string&)>& visit) {
  if (node.is_object() && node.contains("field") && node["field"].is_string()) visit(node["field"].get<std::string>());
  for (const nlohmann::json& child : node)
    if (child.is_structured()) each_field(child, visit);
}

/// Fields that a chart calculates from those of its table.
inline void each_calculated(const nlohmann::json& node, const std::function<void(const std::string&)>& visit) {
  if (node.is_object() && node.contains("calculate")) visit(node["as"].get<std::string>());
  if (node.is_object() && node.contains("stack") && node.contains("as"))
    for (const nlohmann::json& name : node["as"]) visit(name.get<std::string>());
  for (const nlohmann::json& child : node)
    if (child.is_structured()) each_calculated(child, visit);
}

inline void expect_sound(const Chart& chart) {
  SCOPED_TRACE(chart.id);
  const nlohmann::json spec = nlohmann::json::parse(chart.spec, nullptr, false);
  ASSERT_TRUE(spec.is_object());
  EXPECT_EQ(spec["data"], nlohmann::json({{"name", "table"}}));
  EXPECT_EQ(chart.spec.find("\"values\":[{"), std::string::npos) << "rows inside the specification";
  std::set<std::string> columns;
  for (const TableColumn& column : chart.table.columns) {
    EXPECT_TRUE(columns.insert(column.name).second) << column.name << " twice";
    EXPECT_FALSE(column.title.empty());
  }
  EXPECT_TRUE(columns.contains("origin"));
  const size_t width = columns.size();
  each_calculated(spec, [&](const std::string& field) { columns.insert(field); });
  each_field(spec, [&](const std::string& field) { EXPECT_TRUE(columns.contains(field)) << field; });
  EXPECT_FALSE(chart.table.rows.empty());
  for (const auto& row : chart.table.rows) EXPECT_EQ(row.size(), width);
  EXPECT_FALSE(chart.title.empty());
  EXPECT_FALSE(chart.summary.empty());
  EXPECT_EQ(chart.id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-"), std::string::npos);
}

inline void expect_sound(const Page& page) {
  EXPECT_FALSE(page.title.empty());
  EXPECT_FALSE(page.verdict.empty());
  EXPECT_LE(page.facts.size(), 3u);
  std::set<std::string> names;
  for (const PageSection& section : page.sections) {
    EXPECT_TRUE(names.insert(section.anchor).second) << section.anchor;
    for (const Chart& chart : section.charts) {
      EXPECT_TRUE(names.insert(chart.id).second) << chart.id;
      expect_sound(chart);
    }
    for (const PageTable& table : section.tables)
      for (const auto& row : table.table.rows) EXPECT_EQ(row.size(), table.table.columns.size()) << table.caption;
  }
}

inline const Chart* find_chart(const Page& page, const std::string& id) {
  for (const PageSection& section : page.sections)
    for (const Chart& chart : section.charts)
      if (chart.id == id) return &chart;
  return nullptr;
}

inline std::vector<TableValue> column(const Chart& chart, const std::string& name) {
  for (size_t i = 0; i < chart.table.columns.size(); ++i) {
    if (chart.table.columns[i].name != name) continue;
    std::vector<TableValue> values;
    for (const auto& row : chart.table.rows) values.push_back(row[i]);
    return values;
  }
  ADD_FAILURE() << "no column " << name;
  return {};
}

inline size_t rows_with(const Chart& chart, const std::string& name, const std::string& word) {
  const std::vector<TableValue> values = column(chart, name);
  return static_cast<size_t>(std::count(values.begin(), values.end(), TableValue{word}));
}

inline bool has_note(const Page& page, const std::string& part) {
  return std::any_of(page.notes.begin(), page.notes.end(),
                     [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

inline Provenance provenance_of(const std::string& kind, int devices) {
  Provenance p;
  p.tool_version = "0.1.0", p.commit = "abc1234", p.host = "node-1", p.device_kind = kind, p.seed = 42;
  p.command_line = "amdahl <x> | y";
  for (int i = 0; i < devices; ++i) p.facts["device." + std::to_string(i)] = "NVIDIA X";
  return p;
}

}  // namespace amdahl::test
