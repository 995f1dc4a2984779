#include "report/common/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "amdahl/error.h"
#include "plan/cell_axes.h"
#include "report/common/settings.h"
#include "stats/compare.h"
#include "stats/estimate.h"

namespace amdahl {
namespace {

/// The estimated number of further runs, or why none are requested.
std::string further_text(int64_t more_runs, const PairTest& test, std::string_view unit, const std::string& why_not) {
  if (more_runs == 0) return {};
  if (test.level != TestLevel::runs) unit = "processes";
  if (!is_settled_by(more_runs, num_made(test))) return fmt::format("not settled by more {}: {}", unit, why_not);
  if (more_runs == 1) unit = unit == "processes" ? "process" : unit.substr(0, unit.size() - 1);
  return fmt::format("~{} more {}", with_thousands(more_runs), unit);
}

/// "too few runs (3 more)".
std::string too_few_text(const PairTest& test, std::string_view unit) {
  return fmt::format("too few {} ({} more)", unit, kFewestRuns - std::min(test.n_first, test.n_second));
}

std::string in_brackets(const std::string& text) { return text.empty() ? text : fmt::format(" ({})", text); }

/// A fraction in percent, with the fewest digits that distinguish it from 0.
std::string percent_text(double share) { return fmt::format("{:.{}f} %", 100 * share, share < 0.001 ? 2 : 1); }

}  // namespace

std::string verdict_text(const PairTest& test) {
  if (test.level == TestLevel::none) return fmt::format("{} (one process per side)", to_string(test.verdict));
  if (has_too_few_runs(test)) return too_few_text(test, "runs");
  const std::string further = further_text(
      test.more_runs, test, "runs",
      fmt::format("a difference of {} is too small for their spread", percent_text(std::abs(test.ratio - 1))));
  return std::string(to_string(test.verdict)) + in_brackets(further);
}

std::string recommendation_text(Recommendation recommendation, const PairTest& test, std::string_view device_kind,
                                std::string_view unit) {
  if (test.level != TestLevel::none && has_too_few_runs(test)) return too_few_text(test, unit);
  std::string text = format_recommendation(recommendation, device_kind);
  if (recommendation != Recommendation::unclear) return text;
  if (test.verdict == Verdict::faster)
    text += fmt::format(": faster, but not certainly by {:.0f} %", 100 * (kMultiBeneficial - 1));
  else if (test.verdict == Verdict::slower)
    text += fmt::format(": slower, but not certainly by {:.0f} %", 100 * (1 - kSinglePreferred));
  const bool high = std::abs(test.ratio - kMultiBeneficial) < std::abs(test.ratio - kSinglePreferred);
  return text + in_brackets(further_text(runs_to_recommend(test), test, unit,
                                         fmt::format("the speedup is too near {:.2f}x for their spread",
                                                     high ? kMultiBeneficial : kSinglePreferred)));
}

std::string recommendation_text(const StudyComparison& comparison, std::string_view device_kind) {
  return recommendation_text(comparison.recommendation, comparison.test, device_kind, "runs");
}

std::string verdict_legend() {
  return fmt::format(
      "verdict, on the interval of the speedup: several devices from {:.2f}x on, marginal between {:.2f}x and {:.2f}x, "
      "one device below",
      kMultiBeneficial, kSinglePreferred, kMultiBeneficial);
}

std::string format_recommendation(Recommendation recommendation, std::string_view device_kind) {
  const DeviceWords words = device_text(device_kind);
  switch (recommendation) {
    case Recommendation::multi_device:
      return fmt::format("{} beneficial", words.multi);
    case Recommendation::marginal:
      return "marginal";
    case Recommendation::single_device:
      return fmt::format("{} preferred", words.single);
    case Recommendation::unclear:
      break;
  }
  return "unclear";
}

bool was_throttled(double throttle_reasons) {
  constexpr uint64_t kHarmless = 0x3;
  return (static_cast<uint64_t>(throttle_reasons) & ~kHarmless) != 0;
}

std::string axis_text(const AxisValue& value) {
  return std::visit([](const auto& v) { return fmt::format("{}", v); }, value);
}

std::string escape_markdown(std::string_view text) {
  static constexpr std::string_view kSpecial = "\\`*_{}[]<>#|~";
  std::string escaped;
  for (char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      escaped += ' ';
      continue;
    }
    if (c == '&') {
      escaped += "&amp;";
      continue;
    }
    if (kSpecial.find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string escape_xml(std::string_view text) {
  std::string escaped;
  for (const char c : printable(text)) {
    if (c == '&')
      escaped += "&amp;";
    else if (c == '<')
      escaped += "&lt;";
    else if (c == '>')
      escaped += "&gt;";
    else if (c == '"')
      escaped += "&quot;";
    else
      escaped += c;
  }
  return escaped;
}

std::string configuration_text(const CellKey& key) {
  std::string words = fmt::format("{}, {}", key.strategy, key.launch);
  if (key.plan.accumulate > 1 && key.strategy.find(fmt::format(",m{}", key.plan.accumulate)) == std::string::npos)
    words += fmt::format(", {} micro-batches", key.plan.accumulate);
  if (key.devices > 1 && !key.plan.overlap) words += ", no overlap";
  return words;
}

std::string format_cell(const CellKey& key) {
  const std::map<std::string, AxisValue> axes = axes_of(key);
  std::string text;
  for (const char* axis : {"model", "num_parameters", "scaling", "math", "global_batch", "devices"})
    text += setting_text(axis, axes.at(axis)) + ", ";
  return text + configuration_text(key);
}

}  // namespace amdahl
