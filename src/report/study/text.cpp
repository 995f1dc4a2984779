#include "report/study/text.h"

#include <fmt/format.h>

#include "amdahl/units.h"
#include "report/common/aligned_table.h"
#include "report/common/words.h"
#include "report/study/findings.h"
#include "report/study/methods.h"
#include "report/study/model_rate.h"
#include "report/study/one_device.h"
#include "report/study/serial_fraction.h"
#include "report/study/summary.h"

namespace amdahl {
namespace {

std::vector<std::string> comparison_row(const StudySummary& summary, const StudyComparison& c, Charset charset) {
  const auto rate = [&](const CellKey& key) {
    const StudyCell* cell = find_cell(summary, key);
    if (!cell) return std::string("n/a");
    return fmt::format("{} (n={})", format_plus_minus(cell->throughput.mean, cell->throughput.ci, charset),
                       cell->throughput.n);
  };
  return {printable(fmt::format("{} {} {}", c.multi.model, c.multi.scaling, c.multi.math)),
          c.multi.scaling == "weak" ? fmt::format("{}/device", c.multi.device_batch())
                                    : std::to_string(c.multi.global_batch),
          std::to_string(c.multi.devices),
          printable(configuration_text(c.multi)),
          rate(c.single),
          rate(c.multi),
          format_speedup(c.test.ratio, c.test.ci),
          format_percent(c.efficiency),
          verdict_text(c.test),
          recommendation_text(c, summary.device_kind)};
}

}  // namespace

std::string study_text(const StudySummary& summary, bool ascii) {
  const Charset charset = ascii ? Charset::ascii : Charset::utf8;
  std::string text = summary.conclusion + "\n";
  if (summary.device_kind == "cpu-virtual") text += "Measured on CPU virtual devices, not GPUs.\n";
  if (!summary.comparisons.empty()) {
    std::vector<std::vector<std::string>> rows{{"model", "batch", "devices", "configuration", "1 device samples/s",
                                                "n devices samples/s", "speedup [95 % CI]", "efficiency", "verdict",
                                                "recommendation"}};
    for (const StudyComparison& c : summary.comparisons) rows.push_back(comparison_row(summary, c, charset));
    text += fmt::format("\n{}{}\n", aligned_table(rows), verdict_legend());
  }
  for (const AverageSpeedup& a : summary.averages)
    text +=
        fmt::format("average speedup, {} {} {} {}, {} devices: {} (geometric mean over {} batch{}): {}\n",
                    printable(a.model), a.scaling, a.math, a.launch, a.devices, format_speedup(a.geometric_mean, a.ci),
                    a.num_batches, a.num_batches == 1 ? "" : "es", average_text(a, summary.device_kind));
  for (const StudyCell& cell : summary.cells)
    if (cell.bubble_measured && cell.bubble_simulated)
      text += fmt::format(
          "pipeline bubble, {} at batch {}: {:.1f} % measured, {:.1f} % simulated with the measured times of its "
          "stages{}\n",
          printable(cell.key.strategy), cell.key.global_batch, 100 * *cell.bubble_measured,
          100 * *cell.bubble_simulated,
          cell.bubble_simulated_messages && cell.pp_message_us
              ? fmt::format(", {:.1f} % with messages of {:.1f} us as well", 100 * *cell.bubble_simulated_messages,
                            *cell.pp_message_us)
              : "");
  if (const std::string target = communication_target_line(summary); !target.empty()) text += printable(target) + "\n";
  if (const TextTable methods = methods_table(summary); !methods.rows.empty())
    text += fmt::format("\n{}\n{}", methods.title, aligned_table(methods.rows));
  if (const TextTable serial = serial_table(summary); !serial.rows.empty())
    text += fmt::format("\n{}\n{}", serial.title, aligned_table(serial.rows));
  if (summary.one_device) {
    for (const TextTable& table : one_device_tables(summary, charset))
      text += fmt::format("\n{}\n{}", table.title, aligned_table(table.rows));
    text += "\n";
    for (const std::string& sentence : one_device_sentences(summary)) text += sentence + "\n";
  }
  for (const std::string& sentence : model_rate_sentences(summary)) text += printable(sentence) + "\n";
  for (const StudyCell& cell : summary.cells)
    if (cell.status.kind != Status::Kind::ok)
      text += fmt::format("{}: {}: {}\n", cell.status.kind == Status::Kind::waived ? "waived" : "failed",
                          printable(format_cell(cell.key)), printable(cell.status.reason));
  int64_t outliers = 0;
  for (const StudyCell& cell : summary.cells) outliers += cell.step_time_us.num_outliers;
  if (outliers > 0)
    text += fmt::format("{} step-time sample{} flagged as outlier{} (modified z above 3.5), none dropped\n", outliers,
                        outliers == 1 ? "" : "s", outliers == 1 ? "" : "s");
  return text;
}

}  // namespace amdahl
