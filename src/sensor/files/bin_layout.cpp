#include "sensor/files/bin_cloud.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "files/scalars.h"

namespace amdahl {
namespace {

constexpr size_t kLooked = 40'000;     // numbers at the begin of the file
constexpr size_t kEnoughNumbers = 80;  // for a judgement by their statistics
constexpr int64_t kMostColumns = 12;

std::vector<double> read_numbers(std::string_view bytes, size_t width) {
  const ReadScalar read = find_scalar(ScalarKind::floating, width, false);
  std::vector<double> numbers;
  for (size_t at = 0; at + width <= bytes.size() && numbers.size() < kLooked; at += width)
    numbers.push_back(read(bytes.data() + at));
  return numbers;
}

/// Neither coordinates nor features are that large, or that small and not 0.
bool is_implausible(double value) {
  constexpr double kLeast = 1e-12, kMost = 1e10;
  return std::isfinite(value) && value != 0 && !(std::abs(value) >= kLeast && std::abs(value) <= kMost);
}

double share(const std::vector<double>& numbers, bool (*is)(double)) {
  if (numbers.empty()) return 0;
  return static_cast<double>(std::count_if(numbers.begin(), numbers.end(), is)) / static_cast<double>(numbers.size());
}

/// Doubles read as floats: the low halves of their digits are noise, or 0 for whole numbers and for former floats.
bool look_like_doubles(const std::vector<double>& floats, std::string_view bytes) {
  if (bytes.size() % 8 != 0) return false;
  const std::vector<double> doubles = read_numbers(bytes, 8);
  if (share(doubles, [](double v) { return is_implausible(v) || !std::isfinite(v); }) > 0.02) return false;
  std::vector<double> low, high;
  for (size_t i = 0; i < floats.size(); ++i) (i % 2 == 0 ? low : high).push_back(floats[i]);
  const auto is_zero = [](double v) { return v == 0; };
  const double noise = share(low, is_implausible);
  const bool empty_halves = share(low, is_zero) == 1 && share(high, is_zero) < 1;
  return noise > 0.2 || empty_halves;
}

constexpr size_t kTraits = 4;

/// What differs between columns: size and sign, size alone, sign, and whether the numbers are whole.
std::array<double, kTraits> traits_of(double value) {
  if (!std::isfinite(value)) return {};
  const double size = std::log1p(std::abs(value));
  return {std::copysign(size, value), size, value < 0 ? 1.0 : 0.0, value == std::floor(value) ? 1.0 : 0.0};
}

/// How much of the traits' variance lies between the columns, if rows have that many, less what chance makes of it.
double variance_between(const std::vector<std::array<double, kTraits>>& traits, size_t columns) {
  const auto n = static_cast<double>(traits.size());
  double sum = 0;
  for (size_t t = 0; t < kTraits; ++t) {
    double mean = 0, all = 0, between = 0;
    std::vector<double> column_mean(columns), count(columns);
    for (size_t i = 0; i < traits.size(); ++i) {
      mean += traits[i][t] / n;
      column_mean[i % columns] += traits[i][t];
      ++count[i % columns];
    }
    for (const auto& trait : traits) all += (trait[t] - mean) * (trait[t] - mean);
    for (size_t c = 0; c < columns; ++c)
      between += count[c] * (column_mean[c] / count[c] - mean) * (column_mean[c] / count[c] - mean);
    if (all > 1e-9 * n) sum += 1 - (1 - between / all) * (n - 1) / (n - static_cast<double>(columns));
  }
  return sum / kTraits;
}

/// The number of columns that explains the numbers much better than `columns` does; 0 when none does.
int64_t better_columns(const std::vector<double>& numbers, int64_t columns) {
  constexpr double kMuch = 0.12;
  std::vector<std::array<double, kTraits>> traits;
  for (const double number : numbers) traits.push_back(traits_of(number));
  const double given = variance_between(traits, static_cast<size_t>(columns));
  int64_t best = 0;
  double most = given + kMuch;
  for (int64_t other = 3; other <= kMostColumns; ++other) {
    if (other == columns) continue;
    const double explained = variance_between(traits, static_cast<size_t>(other));
    // a multiple of the true number explains as much
    if (explained > most + (best == 0 ? 0 : 0.02)) best = other, most = explained;
  }
  return best;
}

}  // namespace

LayoutDoubt doubt_layout(std::string_view bytes, int64_t columns) {
  constexpr size_t kBegin = 1024;
  const std::string_view begin = bytes.substr(0, kBegin);
  if (std::all_of(begin.begin(), begin.end(),
                  [](char c) { return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r'); }))
    return {"this is text, not numbers in binary", "an ascii .ply file, or .npy"};
  const std::vector<double> floats = read_numbers(bytes, sizeof(float));
  if (look_like_doubles(floats, bytes))
    return {"the numbers look like doubles, and would be read as floats",
            fmt::format("`bin_type=f64`, with `bin_columns`; or `bin_columns={}` if they are floats", columns)};
  if (floats.size() >= kEnoughNumbers / 2 && share(floats, is_implausible) > 0.3)  // one of four columns may be noise
    return {fmt::format("{:.0f} % of the numbers are no coordinates when they are read as floats",
                        100 * share(floats, is_implausible)),
            "a cloud of floats, or `bin_type=f64`"};
  if (floats.size() < kEnoughNumbers) return {};
  const int64_t better = better_columns(floats, columns);
  if (better == 0) return {};
  return {fmt::format("the numbers look like rows of {}, and would be read as rows of {}", better, columns),
          fmt::format("`bin_columns={}`; or `bin_columns={}` if they are rows of {}", better, columns, columns)};
}

}  // namespace amdahl
