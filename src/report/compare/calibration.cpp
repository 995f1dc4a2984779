#include "report/compare/compare.h"

#include <fmt/format.h>

#include <cmath>

#include "amdahl/error.h"
#include "report/common/aligned_table.h"

namespace amdahl {
namespace {

/// The difference that five processes per side resolve: Welch's test at the significance of a verdict, with power 0.8.
std::string resolved(double relative_sd) {
  constexpr double kNoncentrality = 3.67;  // of Student's t with 8 degrees of freedom, 0.025 two-tailed, power 0.8
  return fmt::format("{:.1f} %", 100 * std::expm1(kNoncentrality * relative_sd * std::sqrt(2.0 / 5)));
}

}  // namespace

std::string calibration_text(const std::vector<ProcessSpread>& spreads, const std::string& machine_file) {
  std::vector<std::vector<std::string>> rows{
      {"cell", "processes", "samples each", "spread of medians", "5 processes per side resolve"}};
  for (const ProcessSpread& spread : spreads)
    rows.push_back({printable(spread.kind + " " + spread.cell, 160), std::to_string(spread.processes),
                    fmt::format("{:g}", spread.runs), fmt::format("{:.2f} %", 100 * spread.relative_sd),
                    resolved(spread.relative_sd)});
  return aligned_table(rows) + fmt::format("written to {}\n", machine_file);
}

}  // namespace amdahl
