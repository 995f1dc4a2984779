#include "report/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "amdahl/units.h"

namespace amdahl {

DeviceWords device_words(std::string_view device_kind) {
  if (device_kind == "cuda") return {"GPU", "GPUs", "single GPU", "multi-GPU"};
  return {"CPU virtual device", "CPU virtual devices", "one CPU virtual device", "several CPU virtual devices"};
}

std::string recommendation_words(Recommendation recommendation, std::string_view device_kind) {
  const DeviceWords words = device_words(device_kind);
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

std::string average_words(const AverageSpeedup& average, std::string_view device_kind) {
  return average.batches_disagree ? "depends on the batch" : recommendation_words(average.recommendation, device_kind);
}

std::string format_number(double value) {
  const double size = std::abs(value);
  if (size >= 1e15) return fmt::format("{:.3g}", value);
  if (size >= 99.95) return with_thousands(std::llround(value));
  if (size == 0) return "0";
  const int digits = std::clamp(2 - static_cast<int>(std::floor(std::log10(size))), 0, 9);
  return fmt::format("{:.{}f}", value, digits);
}

std::string format_plus_minus(double mean, const std::optional<Interval>& ci, Charset charset) {
  return fmt::format("{} {} {}", format_number(mean), charset == Charset::ascii ? "+-" : "±",
                     ci ? format_number(ci->half_width()) : "n/a");
}

std::string format_speedup(double ratio, const std::optional<Interval>& ci) {
  if (!ci) return fmt::format("{:.2f}x [n/a]", ratio);
  return fmt::format("{:.2f}x [{:.2f}, {:.2f}]", ratio, ci->low, ci->high);
}

std::string format_percent(double fraction) { return fmt::format("{:.0f} %", 100 * fraction); }

std::string format_p(double p) { return p < 1e-4 ? "p < 0.0001" : fmt::format("p = {:.2g}", p); }

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

std::string binary_bytes(int64_t bytes) {
  static constexpr std::array<const char*, 3> kUnits{"GiB", "MiB", "KiB"};
  int64_t unit = int64_t{1} << 30;
  for (const char* name : kUnits) {
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{} {}", bytes / unit, name);
    unit >>= 10;
  }
  return with_thousands(bytes) + " B";
}

std::string configuration_words(const CellKey& key) {
  std::string words = fmt::format("{}, {}", key.strategy, key.launch);
  if (key.accumulate > 1) words += fmt::format(", {} micro-batches", key.accumulate);
  if (key.devices > 1 && !key.overlap) words += ", no overlap";
  return words;
}

std::string cell_words(const CellKey& key) {
  return fmt::format("{}, {} parameters, {} scaling, {}, global batch {}, {} device{}, {}", key.model,
                     with_thousands(key.num_parameters), key.scaling, key.math, key.global_batch, key.devices,
                     key.devices == 1 ? "" : "s", configuration_words(key));
}

}  // namespace amdahl
