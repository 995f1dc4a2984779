// Texts of verdicts and cells, shared by all reports; number formats are in base/number_text.h.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "amdahl/summary.h"
#include "base/number_text.h"

namespace amdahl {

/// "multi-GPU beneficial", "marginal", "single GPU preferred", "unclear", or the equivalents for CPU virtual devices.
std::string format_recommendation(Recommendation recommendation, std::string_view device_kind);

/// "FASTER", "UNCLEAR (~12 more runs)", "too few runs (3 more)", or, when no number of runs suffices, "UNCLEAR (not
/// settled by more runs: a difference of 0.3 % is too small for their spread)".
std::string verdict_text(const PairTest& test);
/// "multi-GPU beneficial", "unclear: faster, but not certainly by 10 % (~2 more runs)", "too few runs (3 more)": the
/// one verdict of a row that compares several devices with one.
std::string recommendation_text(const StudyComparison& comparison, std::string_view device_kind);
/// Like above for any test; `unit` names the further runs.
std::string recommendation_text(Recommendation recommendation, const PairTest& test, std::string_view device_kind,
                                std::string_view unit);
/// Explains these verdicts in one line.
std::string verdict_legend();

/// Whether a GPU was throttled by power, heat or hardware: all throttle reasons of NVML except idle and application
/// clocks.
bool was_throttled(double throttle_reasons);
/// Relative difference above which two clocks count as different.
inline constexpr double kClockTolerance = 0.03;

/// The value of an axis as a user types it: "64", "true", "graph".
std::string axis_text(const AxisValue& value);

/// Escapes user text for Markdown: characters that would start markup, a table cell or HTML; line ends become spaces.
std::string escape_markdown(std::string_view text);

/// Escapes user text for XML: characters that would start markup; control characters and invalid UTF-8 become \xNN.
std::string escape_xml(std::string_view text);

/// The key without model and batch: "data, graph", with accumulate, bucket and overlap if relevant.
std::string configuration_text(const CellKey& key);

/// One line that names a cell in full.
std::string format_cell(const CellKey& key);

}  // namespace amdahl
