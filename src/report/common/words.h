// How verdicts and cells are written, the same in every report; numbers are in base/number_text.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "amdahl/summary.h"
#include "base/number_text.h"

namespace amdahl {

/// "multi-GPU beneficial", "marginal", "single GPU preferred", "unclear", or the same of CPU virtual devices.
std::string format_recommendation(Recommendation recommendation, std::string_view device_kind);

/// "FASTER", "UNCLEAR (~12 more runs)", or where none would do "UNCLEAR (not settled by more runs: a difference of 0.3
/// % is too small for their spread)".
std::string verdict_text(const PairTest& test);
/// "multi-GPU beneficial", "unclear: faster, but not certainly by 10 % (~2 more runs)": in the same row as the verdict,
/// of which it must not say the opposite.
std::string recommendation_text(const StudyComparison& comparison, std::string_view device_kind);
/// The same of any test, its further runs counted in `unit`.
std::string recommendation_text(Recommendation recommendation, const PairTest& test, std::string_view device_kind,
                                std::string_view unit);
/// What the columns verdict and recommendation mean, in a line.
std::string verdict_legend();

/// The same of an average, or "depends on the batch".
std::string average_text(const AverageSpeedup& average, std::string_view device_kind);

/// Whether a card was slowed by power, heat or hardware: NVML's throttle reasons but for idleness and a chosen clock.
bool was_throttled(double throttle_reasons);
/// Clocks this far apart, relative, are not the same.
inline constexpr double kClockTolerance = 0.03;

/// A record's axis as a user writes it: "64", "true", "graph".
std::string axis_text(const AxisValue& value);

/// User text inside Markdown: characters that would start markup, a table cell or HTML are escaped, line ends become
/// spaces.
std::string escape_markdown(std::string_view text);

/// User text inside XML: what would start markup is escaped, control characters and broken UTF-8 become \xNN.
std::string escape_xml(std::string_view text);

/// The key without model and batch: "data, graph", with accumulate, bucket and overlap where they matter.
std::string configuration_text(const CellKey& key);
/// One line that names a cell in full.
std::string format_cell(const CellKey& key);

}  // namespace amdahl
