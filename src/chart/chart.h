// A chart of a report: a Vega-Lite specification and the table it draws. Plain data, written by pure functions from
// records and summaries, rendered by src/report (a page, an SVG in Markdown).
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// Missing, text, a whole number, or a number in the unit of its column.
using TableValue = std::variant<std::monostate, std::string, int64_t, double>;

struct TableColumn {
  std::string name;   // field of the specification, snake_case with the unit: "step_time_us"
  std::string title;  // for people: "Step time (us)"
};

struct DataTable {
  std::vector<TableColumn> columns;
  std::vector<std::vector<TableValue>> rows;  // each of columns.size() values
};

/// One chart with everything that a reader without a screen, a mouse or a network needs of it.
struct Chart {
  std::string id;       // unique in its page, [a-z0-9-]: anchor and name of exported files
  std::string title;    // what is drawn, with unit
  std::string summary;  // text alternative: what can be seen, in one or two sentences with numbers
  Origin origin = Origin::measured;
  std::string spec;     // Vega-Lite JSON without data; reads the data set "table", whose fields are the columns' names
  DataTable table;      // what is drawn, and no more
  int least_width = 0;  // pixels below which its words do not fit; a narrower place is scrolled
  bool wide = false;    // several panels: it wants a row of its own, and does without where there is no room
};

}  // namespace amdahl
