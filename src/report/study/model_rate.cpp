#include "report/study/method.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "amdahl/error.h"
#include "base/limited_devices.h"
#include "plan/gpu_kinds.h"
#include "report/common/words.h"

namespace amdahl {
namespace {

std::string flop_rate_text(double flops) {
  for (const auto& [unit, factor] : {std::pair{"TFLOP/s", 1e12}, {"GFLOP/s", 1e9}})
    if (flops >= factor) return fmt::format("{} {}", format_number(flops / factor), unit);
  return fmt::format("{} MFLOP/s", format_number(flops / 1e6));
}

}  // namespace

std::vector<std::string> model_rate_sentences(const StudySummary& summary) {
  std::map<std::string, const StudyCell*> fastest;
  for (const StudyCell& cell : summary.cells) {
    if (cell.step_time_us.n == 0 || !cell.model_flops_per_s) continue;
    const StudyCell*& best = fastest[cell.key.model];
    if (!best || cell.throughput().value > best->throughput().value) best = &cell;
  }
  std::vector<std::string> sentences;
  for (const auto& [model, cell] : fastest) {
    const int64_t devices = cell->key.devices;
    std::string text =
        fmt::format("{} at global batch {} on {} device{}: {} samples/s", model, with_thousands(cell->key.global_batch),
                    devices, devices == 1 ? "" : "s", format_number(cell->throughput().value));
    if (cell->tokens_per_s) text += fmt::format(", {} tokens/s", format_number(*cell->tokens_per_s));
    text += fmt::format(", {} of matrix products and convolutions, forward and backward",
                        flop_rate_text(*cell->model_flops_per_s));
    if (cell->model_flop_share)
      text +=
          fmt::format(", MFU {:.1f} % of the data sheet's peak in {}", 100 * *cell->model_flop_share, cell->key.math);
    sentences.push_back(std::move(text));
  }
  return sentences;
}

std::optional<double> model_flop_share(const StudyCell& cell, const Provenance& provenance) {
  const int64_t devices = cell.key.devices;
  const auto peak = peak_flops(first_devices(provenance, devices), devices, cell.key.math);
  return peak && cell.model_flops_per_s ? std::optional(*cell.model_flops_per_s / *peak) : std::nullopt;
}

bool add_share_column(const StudySummary& summary, DataTable& table) {
  const bool has_share = std::any_of(summary.cells.begin(), summary.cells.end(),
                                     [](const StudyCell& cell) { return cell.model_flop_share.has_value(); });
  if (has_share) table.columns.push_back({"mfu", "MFU (%)"});
  return has_share;
}

std::string memory_peak_text(const StudyCell& cell) {
  if (!cell.memory_peak_bytes) return "-";
  if (!cell.memory_modelled_bytes) return format_bytes(*cell.memory_peak_bytes);
  return fmt::format("{} (modelled {})", format_bytes(*cell.memory_peak_bytes),
                     format_bytes(*cell.memory_modelled_bytes));
}

}  // namespace amdahl
