// Pieces that specifications share. For the sources of this folder only: it shows the JSON library.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/summary.h"
#include "chart/chart.h"

namespace amdahl {

inline constexpr int kPictureWidth = 520;  // pixels, of the plot itself
inline constexpr int kPanelWidth = 280;    // of each of two beside each other

/// A specification that reads the data set "table". Colours, type and the styles "limit", "limit-label", "marker",
/// "mark-label" and "interval" come from the page's configuration.
nlohmann::json start_spec(int height_px);

/// Encoding of a column, titled as the column is. Error{internal} for a column that the table lacks.
nlohmann::json channel(const DataTable& table, std::string_view column, const char* type);

/// All columns, for whoever points at a mark.
nlohmann::json tooltip(const DataTable& table);

/// Keeps the rows that have `value` in `column`.
nlohmann::json only_rows(const char* column, const std::string& value);

/// Sizes in bytes as "64 KiB" on an axis.
nlohmann::json bytes_axis();
/// Numbers of any size, without needless digits. The axis's own format takes its digits from the distance of ticks and
/// writes 100 as 1e+2.
inline constexpr const char* kNumberLabel = "format(datum.value, ',.9~g')";
nlohmann::json number_axis();

/// Widens `extent` to the positive numbers of a column.
void include_positive(Interval& extent, const DataTable& table, size_t column);
/// Numbers of 1, 2 and 5 times powers of ten within [low, high], as many as an axis has room for; evenly spaced ones
/// where the range is so narrow that these are few.
std::vector<double> log_ticks(double low, double high);
/// A logarithmic scale of `encoding` that ends a little beyond `extent`, with ticks that all have labels.
void set_log_scale(nlohmann::json& encoding, Interval extent);
/// The end of an axis from 0 that has room for `most`: a round number.
double round_above(double most);

/// The column "origin" as a dash: measured solid, emulated long dashes, modelled short ones. The legend says so as soon
/// as a row is not measured.
nlohmann::json origin_dash(const DataTable& table);
/// The same for areas, which are paler when they were not measured.
nlohmann::json origin_opacity(const DataTable& table);

/// Position of a column; Error{internal} without it.
size_t column_index(const DataTable& table, std::string_view column);

/// Distinct texts of a column in the order of the rows.
std::vector<std::string> words_of_column(const DataTable& table, std::string_view column);

}  // namespace amdahl
