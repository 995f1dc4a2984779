// A chart of a report: a Vega-Lite specification and its data table. Plain data, made by pure functions from records
// and summaries, and rendered by src/report (a page, or an SVG in Markdown).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// Missing, a text, an integer, or a number in the unit of its column.
using TableValue = std::variant<std::monostate, std::string, int64_t, double>;

struct TableColumn {
  std::string name;   // field name in the specification, snake_case with the unit: "step_time_us"
  std::string title;  // heading: "Step time (us)"
};

struct DataTable {
  std::vector<TableColumn> columns;
  std::vector<std::vector<TableValue>> rows;  // each of columns.size() values
};

/// One chart, complete with table and text alternative for readers without a screen, a mouse or a network.
struct Chart {
  std::string id;       // unique within the page, [a-z0-9-]; anchor and name of exported files
  std::string title;    // what is drawn, with unit
  std::string summary;  // text alternative: one or two sentences with numbers
  Origin origin = Origin::measured;
  bool with_modelled = false;  // modelled bars are beside those of `origin`
  std::string spec;            // Vega-Lite JSON without data; its data set "table" has the column names as fields
  DataTable table;             // exactly the drawn data
  int least_width = 0;         // minimum width in pixels for its labels; a narrower container scrolls
  bool wide = false;           // has several panels and gets a full row of the page if there is room
};

}  // namespace amdahl
