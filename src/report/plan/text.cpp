#include "report/plan/text.h"

#include <fmt/format.h>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "report/common/aligned_table.h"
#include "report/plan/page.h"

namespace amdahl {

std::string thresholds_text(const ThresholdsOutcome& outcome, size_t width) {
  const auto size = [](int64_t parameters) {
    return parameters > 0 ? with_thousands(parameters) : std::string("none");
  };
  std::vector<std::vector<std::string>> rows{{"global batch", "devices",
                                              outcome.calibration.is_assumed()
                                                  ? "parameters from which on they would pay"
                                                  : "parameters from which on they pay"}};
  for (const SizeThreshold& one : outcome.thresholds)
    rows.push_back({with_thousands(one.global_batch), std::to_string(one.devices), size(one.parameters)});
  const std::string first =
      outcome.calibration.is_unmeasured() ? "Nothing was measured: every constant is assumed.\n" : std::string();
  return first +
         fmt::format(
             "from which size on several devices pay (the {} of the speedup at 1.10 or above, dense layers, "
             "ddp; modelled)\n{}\n\n",
             range_title(outcome.calibration), calibration_text(outcome.calibration)) +
         aligned_table(rows, {}, width) +
         "\nthe published study, for two RTX 4070 Ti SUPER without peer access, says in different places: never below "
         "500,000 or 1,000,000; from 10,000,000 at a batch of 64; break-even at 15,000,000 to 20,000,000\n";
}

std::string thresholds_line_text(const std::vector<SizeThreshold>& thresholds, const Calibration& calibration) {
  std::string text;
  int64_t batch = 0;
  for (const SizeThreshold& one : thresholds) {
    if (one.global_batch != batch) text += fmt::format("; at batch {}:", with_thousands(one.global_batch));
    text += fmt::format("{} {} {}", one.global_batch != batch ? "" : ",", one.devices,
                        one.parameters > 0 ? fmt::format("from {}", with_thousands(one.parameters)) : "at no size");
    batch = one.global_batch;
  }
  const CalibrationConstant* rate = calibration.find("dp_gbps");
  const bool assumed = rate && rate->origin == ConstantOrigin::assumed;
  return fmt::format(
      "parameters from which on 2, 4 and 8 devices {} (dense layers, ddp; modelled from the "
      "calibration{}){}",
      calibration.is_assumed() ? "would pay" : "pay",
      assumed ? fmt::format(", with an assumed link of {} GB/s", format_number(rate->value)) : "", text);
}

}  // namespace amdahl
