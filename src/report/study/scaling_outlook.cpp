#include "report/study/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "report/common/aligned_table.h"
#include "report/common/words.h"
#include "stats/compare.h"

namespace amdahl {
namespace {

const char* term_origin(Origin origin) {
  return origin == Origin::measured ? "measured" : origin == Origin::emulated ? "emulated" : "modelled";
}

double term_us(const ScalingPrediction& p, std::string_view name) {
  for (const PredictedTerm& term : p.terms)
    if (term.name == name) return term.us;
  return 0;
}

std::string measured_text(const ScalingPrediction& p) {
  std::vector<std::string> parts;
  for (const MeasuredStep& m : p.measured)
    parts.push_back(
        fmt::format("{} {:.2f}x, step {:+.0f} %", m.strategy, m.speedup, 100 * (p.step_us / m.step_us - 1)));
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<std::string> row_of(const ScalingPrediction& p, const ScalingOutlook& outlook, bool any_measured) {
  const PredictedTerm& own = p.terms.front();
  std::vector<std::string> row{printable(p.single.model),
                               with_thousands(p.single.global_batch),
                               std::to_string(p.devices),
                               fmt::format("{} (n={})", format_number(p.single_us), p.n_single),
                               fmt::format("{} ({})", format_number(own.us), term_origin(own.origin)),
                               format_number(term_us(p, "all-reduce latency")),
                               format_number(term_us(p, "gradient bytes")),
                               format_number(term_us(p, "joins of the graph"))};
  if (outlook.overlap) row.push_back(format_number(term_us(p, "hidden behind backward")));
  row.push_back(format_number(p.step_us));
  row.push_back(format_speedup(p.speedup, p.ci));
  row.push_back(format_recommendation(p.recommendation, outlook.device_kind));
  if (any_measured) row.push_back(measured_text(p));
  return row;
}

// The sources of the terms, once for all batches; that of T1(B/n) differs per row.
std::vector<std::string> sources(const ScalingOutlook& outlook) {
  std::vector<std::string> lines;
  for (const ScalingPrediction& p : outlook.predictions)
    for (const PredictedTerm& term : p.terms) {
      const std::string line =
          &term == &p.terms.front()
              ? fmt::format("  T1(B/n), batch {} on {}: {}, {}", with_thousands(p.single.global_batch), p.devices,
                            term_origin(term.origin), term.source)
              : fmt::format("  {}, {} devices: {}, {}", term.name, p.devices, term_origin(term.origin), term.source);
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
    }
  return lines;
}

}  // namespace

std::string outlook_text(const ScalingOutlook& outlook) {
  const bool any_measured = std::any_of(outlook.predictions.begin(), outlook.predictions.end(),
                                        [](const ScalingPrediction& p) { return !p.measured.empty(); });
  const bool assumed = outlook.link.rate_origin != Origin::measured;
  std::string text =
      assumed
          ? fmt::format("Nothing was measured over {}: its rate is assumed; the steps of one device are measured.\n",
                        printable(outlook.link.name))
          : std::string();
  text += fmt::format("Predicted for data parallelism over {} (modelled): Tn(B) = T1(B/n) + communication{}\n\n",
                      printable(outlook.link.name), outlook.overlap ? " that backward does not hide" : "");
  std::vector<std::string> head{"model",      "batch",      "devices",  "T1(B) us",
                                "T1(B/n) us", "latency us", "bytes us", "joins us"};
  if (outlook.overlap) head.emplace_back("hidden us");
  head.insert(head.end(), {"step us", assumed ? "speedup [range (assumed)]" : "speedup [95 % CI]",
                           assumed ? "verdict (modelled), would be" : "verdict (modelled)"});
  if (any_measured) head.emplace_back("measured; error of the prediction");
  std::vector<std::vector<std::string>> rows{head};
  for (const ScalingPrediction& p : outlook.predictions) rows.push_back(row_of(p, outlook, any_measured));
  text += aligned_table(rows) + "\nwhere each term comes from (T1(B): measured):\n";
  for (const std::string& line : sources(outlook)) text += printable(line) + "\n";
  text += fmt::format(
      "verdict: as a study's, lower end of the interval at least {:.2f} several devices, inside {:.2f} to "
      "{:.2f} "
      "marginal, upper end below {:.2f} one device\n"
      "the interval is that of the measured steps; the model's own error is not in it: 4 % too long to 31 % too short "
      "for ddp on two and four H200s (results/h200/predictions.md)\n",
      kMultiBeneficial, kSinglePreferred, kMultiBeneficial, kSinglePreferred);
  for (const std::string& note : outlook.notes) text += fmt::format("note: {}\n", printable(note));
  return text;
}

}  // namespace amdahl
