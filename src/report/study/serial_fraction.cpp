#include "report/study/serial_fraction.h"

#include <fmt/format.h>

#include <map>

#include "amdahl/error.h"
#include "report/common/words.h"
#include "report/page/page_parts.h"
#include "report/study/summary.h"
#include "stats/serial_fraction.h"

namespace amdahl {
namespace {

constexpr size_t kLeastCounts = 2;  // multi-device counts; three with one device

const char* kHow =
    "Karp-Flatt metric of each device count, e = (1/S - 1/n) / (1 - 1/n), and the serial fraction f of Amdahl's law, "
    "1/S = f + (1 - f)/n, fitted over the counts by least squares. Strong scaling only. A constant e is work that does "
    "not divide; an e that grows with n is overhead that grows with the devices. Above 1, several devices are slower "
    "than one.";

}  // namespace

std::vector<SerialFraction> serial_fractions(const StudySummary& summary) {
  std::map<CellKey, std::map<int64_t, const StudyComparison*>> counts;  // by the key without its devices
  for (const StudyComparison& comparison : summary.comparisons) {
    if (comparison.multi.scaling != "strong") continue;
    CellKey group = comparison.multi;
    group.devices = 0;
    counts[group][comparison.multi.devices] = &comparison;
  }
  const auto step_us = [&](const CellKey& key) { return find_cell(summary, key)->step_time_us.estimate(); };
  std::vector<SerialFraction> fractions;
  for (const auto& [group, by_devices] : counts) {
    if (by_devices.size() < kLeastCounts) continue;
    std::vector<StepSamples> several;
    for (const auto& [devices, comparison] : by_devices)
      several.push_back({devices, step_us(comparison->multi), {comparison->test.ratio, comparison->test.ci}});
    const StudyComparison& largest = *by_devices.rbegin()->second;
    fractions.push_back(serial_fraction(step_us(largest.single), several));
    fractions.back().cell = largest.multi;
  }
  return fractions;
}

std::string serial_text(const SerialFraction& fraction, std::string_view device_kind) {
  const SerialPoint &first = fraction.points.front(), &last = fraction.points.back();
  const std::string_view many = device_text(device_kind).many;
  const std::string from_to = fmt::format("from {:.3f} on {} to {:.3f} on {} {}", first.fraction, first.devices,
                                          last.fraction, last.devices, many);
  switch (fraction.trend) {
    case SerialTrend::constant:
      return fmt::format("e stays at {:.3f}: a serial part, not overhead that grows with the {}", fraction.fitted,
                         many);
    case SerialTrend::grows:
      return fmt::format("e grows {}: overhead that grows with the devices, such as communication", from_to);
    case SerialTrend::falls:
      return fmt::format("e falls {}: overhead that several devices share or that is paid once", from_to);
    case SerialTrend::unclear:
      break;
  }
  return fmt::format("e goes {}: its change is not told from noise", from_to);
}

PageSection serial_section(const StudySummary& summary) {
  PageSection section{"serial-fraction", "Serial fraction (Karp-Flatt, Amdahl)", {}, {}, {}};
  section.details = {kHow};
  if (summary.serial_fractions.empty()) return section;
  PageTable table;
  table.caption = "Strong scaling, 95 % intervals from those of the step times";
  table.table.columns = {{"model", "Model"},
                         {"global_batch", "Global batch"},
                         {"configuration", "Configuration"},
                         {"devices", "Devices"},
                         {"speedup", "Speedup (ratio)"},
                         {"karp_flatt", "e (Karp-Flatt)"},
                         {"low", "from"},
                         {"high", "to"},
                         {"fitted", "f (Amdahl, fitted)"},
                         {"fitted_low", "from"},
                         {"fitted_high", "to"}};
  for (const SerialFraction& fraction : summary.serial_fractions) {
    section.paragraphs.push_back(
        fmt::format("{} at global batch {}, {}: {}.", fraction.cell.model, with_thousands(fraction.cell.global_batch),
                    configuration_text(fraction.cell), serial_text(fraction, summary.device_kind)));
    for (const SerialPoint& point : fraction.points)
      table.table.rows.push_back({fraction.cell.model, fraction.cell.global_batch, configuration_text(fraction.cell),
                                  point.devices, point.speedup, point.fraction, end_of(point.ci, true),
                                  end_of(point.ci, false), fraction.fitted, end_of(fraction.fitted_ci, true),
                                  end_of(fraction.fitted_ci, false)});
  }
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace amdahl
