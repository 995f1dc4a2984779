#include "report/words.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/units.h"

namespace amdahl {

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
