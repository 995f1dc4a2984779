// Building blocks of Vega-Lite specifications. Private to this folder, because the JSON library is part of the
// interface.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/summary.h"
#include "chart/chart.h"

namespace amdahl {

inline constexpr int kPictureWidth = 520;  // width of the plot area, pixels
inline constexpr int kPanelWidth = 280;    // width of each of two adjacent panels, pixels

/// A new specification that reads the data set "table". Colours, fonts and the styles "limit", "limit-label", "marker",
/// "mark-label" and "interval" come from the page's configuration.
nlohmann::json start_spec(int height_px);

/// Encoding channel of a column, with the column's title. Error{internal} for a column that the table lacks.
nlohmann::json channel(const DataTable& table, std::string_view column, const char* type);

/// A tooltip with all columns.
nlohmann::json tooltip(const DataTable& table);

/// Filter: keeps the rows with `value` in `column`.
nlohmann::json only_rows(const char* column, const std::string& value);

/// Axis that labels sizes in bytes as "64 KiB".
nlohmann::json bytes_axis();
/// Label expression for numbers of any magnitude, without trailing digits. The default format derives its digits from
/// the tick distance and writes 100 as 1e+2.
inline constexpr const char* kNumberLabel = "format(datum.value, ',.9~g')";
nlohmann::json number_axis();

/// Extends `extent` to the positive numbers of a column.
void include_positive(Interval& extent, const DataTable& table, size_t column);
/// Ticks at 1, 2 and 5 times powers of ten within [low, high], as many as fit on an axis; evenly spaced ticks when the
/// range is so narrow that these are few.
std::vector<double> log_ticks(double low, double high);
/// Gives `encoding` a logarithmic scale slightly wider than `extent`, with a label on every tick.
void set_log_scale(nlohmann::json& encoding, Interval extent);
/// A round number above `most`, as the end of an axis from 0.
double round_above(double most);

/// Encodes the column "origin" as a dash: measured solid, emulated long dashes, modelled short dashes. It has a legend
/// only if some row is not measured.
nlohmann::json origin_dash(const DataTable& table);
/// Like origin_dash for areas: those that were not measured are paler.
nlohmann::json origin_opacity(const DataTable& table);

/// Colours of the parts of a step, the same in every chart: the scale of a colour channel whose column has the names of
/// step_parts().
nlohmann::json step_part_scale();

/// Index of a column; Error{internal} when it does not exist.
size_t column_index(const DataTable& table, std::string_view column);

/// Distinct texts of a column, in row order.
std::vector<std::string> words_of_column(const DataTable& table, std::string_view column);

}  // namespace amdahl
