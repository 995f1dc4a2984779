#include "base/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "amdahl/error.h"

namespace amdahl {

DeviceWords device_text(std::string_view device_kind) {
  if (device_kind == "cuda") return {"GPU", "GPUs", "single GPU", "multi-GPU"};
  return {"CPU virtual device", "CPU virtual devices", "one CPU virtual device", "several CPU virtual devices"};
}

std::string format_axis(std::string_view axis) {
  constexpr std::string_view kCount = "num_";
  if (axis.starts_with(kCount)) axis.remove_prefix(kCount.size());
  for (const std::string_view unit : {"_bytes", "_ppm"})
    if (axis.ends_with(unit)) axis.remove_suffix(unit.size());
  std::string words(axis);
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::string format_number(double value, int significant) {
  const double size = std::abs(value);
  if (!(size < 1e15)) return fmt::format("{:.{}g}", value, significant);
  if (size >= std::pow(10, significant - 1) - 0.05) return with_thousands(std::llround(value));
  if (size == 0) return "0";
  constexpr int kMostDecimals = 9;
  const int decimals = std::max(significant - 1 - static_cast<int>(std::floor(std::log10(size))), 0);
  return decimals > kMostDecimals ? fmt::format("{:.{}g}", value, significant)
                                  : fmt::format("{:.{}f}", value, decimals);
}

std::string format_number(double value) { return format_number(value, 3); }

std::string short_number(double value) {
  constexpr std::pair<double, const char*> kSteps[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e4, "k"}};
  for (const auto& [step, suffix] : kSteps)
    if (std::abs(value) >= step) {
      const double scale = std::string_view(suffix) == "k" ? 1e3 : step;
      return format_number(value / scale) + suffix;
    }
  return format_number(value);
}

std::string format_plus_minus(double mean, const std::optional<Interval>& ci, Charset charset) {
  if (!ci) return format_number(mean);
  return fmt::format("{} {} {}", format_number(mean), charset == Charset::ascii ? "+-" : "±",
                     format_number(ci->half_width()));
}

std::string format_speedup(double ratio, const std::optional<Interval>& ci) {
  if (!ci) return fmt::format("{:.2f}x [n/a]", ratio);
  return fmt::format("{:.2f}x [{:.2f}, {:.2f}]", ratio, ci->low, ci->high);
}

std::string format_percent(double fraction) { return fmt::format("{:.0f} %", 100 * fraction); }

std::string format_p(double p) { return p < 1e-4 ? "p < 0.0001" : fmt::format("p = {:.2g}", p); }

std::string binary_bytes(int64_t bytes) {
  static constexpr std::array<const char*, 3> kUnits{"GiB", "MiB", "KiB"};
  int64_t unit = int64_t{1} << 30;
  for (const char* name : kUnits) {
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{} {}", bytes / unit, name);
    unit >>= 10;
  }
  return with_thousands(bytes) + " B";
}

}  // namespace amdahl
