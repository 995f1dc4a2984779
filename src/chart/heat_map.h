// Matrices as heat maps: every cell shows its number, some are outlined.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "chart/chart.h"

namespace amdahl {

struct HeatCell {
  std::string row;
  TableValue column;
  double value = 0;                 // determines the colour, in the unit of the value column
  std::string words;                // text in the cell
  std::string judgement;            // one of HeatMap::outlined or HeatMap::plain
  std::vector<TableValue> further;  // one per column of HeatMap::further
};

struct HeatMap {
  std::string id, title, summary;  // fields of the Chart
  TableColumn row, column, value;
  std::vector<TableColumn> further;  // additional columns of the table
  std::string judgement_title;       // empty: no cell is outlined
  std::string outlined, plain;       // judgements: "below 90 % of what is expected", "as expected"
  std::vector<std::string> rows;     // row order, top to bottom
  std::vector<std::string> columns;  // column order; empty: sizes in bytes, ascending
  double full = 0;                   // value with the strongest colour; 0: the largest
  bool high_is_dark = true;          // otherwise the smallest values have the strongest colour
  std::vector<HeatCell> cells;
};

/// nullopt without cells.
std::optional<Chart> heat_map_chart(const HeatMap& map);

}  // namespace amdahl
