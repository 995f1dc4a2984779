#include "reference_sensor.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace amdahl::test {
namespace {

constexpr double kFloatEpsilon = 0x1p-23;

struct Format {
  int exponent_bits, mantissa_bits;
};

Format format_of(DType type) {
  if (type == DType::bf16) return {8, 7};
  if (type == DType::f16) return {5, 10};
  return {8, 23};
}

uint32_t pack(double value, const Format& format) {
  const int mantissa = format.mantissa_bits, bias = (1 << (format.exponent_bits - 1)) - 1, smallest = 1 - bias;
  const uint32_t sign = std::signbit(value) ? 1u << (format.exponent_bits + mantissa) : 0u;
  const uint32_t infinity = ((1u << format.exponent_bits) - 1) << mantissa;
  if (std::isnan(value)) return infinity | (1u << (mantissa - 1));
  if (std::isinf(value)) return sign | infinity;
  if (value == 0) return sign;
  const int exponent = std::max(std::ilogb(value), smallest);
  if (exponent > bias) return sign | infinity;
  const double units = std::nearbyint(std::ldexp(std::fabs(value), mantissa - exponent));
  // The hidden bit of a normal number carries into the exponent field, as does a mantissa that is rounded up.
  const uint32_t bits = (static_cast<uint32_t>(exponent - smallest) << mantissa) + static_cast<uint32_t>(units);
  return sign | std::min(bits, infinity);
}

double unpack(uint32_t bits, const Format& format) {
  const int mantissa = format.mantissa_bits, bias = (1 << (format.exponent_bits - 1)) - 1;
  const double sign = (bits >> (format.exponent_bits + mantissa)) != 0 ? -1.0 : 1.0;
  const int field = static_cast<int>((bits >> mantissa) & ((1u << format.exponent_bits) - 1));
  const uint32_t fraction = bits & ((1u << mantissa) - 1);
  if (field == (1 << format.exponent_bits) - 1)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  if (field == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa);
  return sign * std::ldexp(fraction + (1u << mantissa), field - bias - mantissa);
}

double rounded(double value, DType type) {
  const Format format = format_of(type);
  return unpack(pack(value, format), format);
}

double to_float(double value) { return rounded(value, DType::f32); }

// The two samples and the weight between them; first == second means the sample itself.
struct Interval {
  int64_t first = 0, second = 0;
};

// Largest i with times[i] <= t, or -1.
int64_t last_not_after(const float* times, int64_t length, float t) {
  int64_t found = -1;
  for (int64_t i = 0; i < length; ++i)
    if (times[i] <= t) found = i;
  return found;
}

Interval interval_of(const float* times, int64_t length, float t, Extrapolation rule) {
  if (length == 1) return {0, 0};
  if (rule == Extrapolation::linear) {
    if (t <= times[0]) return {0, 1};
    if (t >= times[length - 1]) return {length - 2, length - 1};
    const int64_t i = last_not_after(times, length, t);
    return {i, i + 1};
  }
  if (rule == Extrapolation::linear_right) {
    int64_t i = 0;  // first time >= t, at most the last
    while (i < length - 1 && times[i] < t) ++i;
    return i == 0 ? Interval{0, 0} : Interval{i - 1, i};
  }
  const int64_t i = last_not_after(times, length, t);
  if (i < 0) return {0, 0};
  return i == length - 1 ? Interval{i, i} : Interval{i, i + 1};
}

Expected interpolated(double a, double b, double t, double t0, double t1, DType type, Extrapolation rule) {
  if (rule == Extrapolation::hold) {
    const double weight = to_float(to_float(t - t0) / to_float(t1 - t0));
    return {rounded(to_float(a + to_float(weight * to_float(b - a))), type), 0};
  }
  // Tolerance: rounding in any order of evaluation, a quotient within two units in the last place (a GPU's approximate
  // division), and half a unit for rounding the output.
  const double weight = (t - t0) / (t1 - t0 + static_cast<double>(1e-8f)), value = a + weight * (b - a);
  const double terms = std::fabs(a) * (1 + std::fabs(weight)) + std::fabs(b) * std::fabs(weight);
  const Format format = format_of(type);
  const int smallest = 2 - (1 << (format.exponent_bits - 1));
  const double last_place =
      std::ldexp(1.0, std::max(value == 0 ? smallest : std::ilogb(value), smallest) - format.mantissa_bits);
  return {value, 6 * kFloatEpsilon * terms + (type == DType::f32 ? 0x1p-148 : 0.51 * last_place)};
}

}  // namespace

double decode(const void* data, DType type, int64_t i) {
  if (type == DType::f32) {
    uint32_t bits;
    std::memcpy(&bits, static_cast<const uint8_t*>(data) + i * 4, 4);
    return unpack(bits, format_of(type));
  }
  uint16_t bits;
  std::memcpy(&bits, static_cast<const uint8_t*>(data) + i * 2, 2);
  return unpack(bits, format_of(type));
}

std::vector<uint8_t> encode(const std::vector<double>& values, DType type) {
  const size_t width = type == DType::f32 ? 4 : 2;
  std::vector<uint8_t> bytes(values.size() * width);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = pack(values[i], format_of(type));
    std::memcpy(bytes.data() + i * width, &bits, width);  // little endian, like every machine that CUDA supports
  }
  return bytes;
}

double largest_finite(DType type) {
  const Format format = format_of(type);
  return std::ldexp(2.0 - std::ldexp(1.0, -format.mantissa_bits), (1 << (format.exponent_bits - 1)) - 1);
}

std::vector<Expected> reference_fuse(const FuseInput& input, DType type, Extrapolation rule) {
  std::vector<Expected> output;
  for (int64_t b = 0; b < input.batch; ++b)
    for (int64_t k = 0; k < input.num_targets; ++k) {
      const float t = input.targets[static_cast<size_t>(b * input.num_targets + k)];
      for (const StreamInput& stream : input.streams) {
        const float* times = stream.times.data() + b * stream.length;
        const double* data = stream.data.data() + b * stream.length * stream.width;
        const Interval at = interval_of(times, stream.length, t, rule);
        for (int64_t d = 0; d < stream.width; ++d) {
          const double first = rounded(data[at.first * stream.width + d], type);
          const double second = rounded(data[at.second * stream.width + d], type);
          output.push_back(at.first == at.second
                               ? Expected{first, 0}
                               : interpolated(first, second, t, times[at.first], times[at.second], type, rule));
        }
      }
    }
  return output;
}

TimesVerdict reference_check_times(const std::vector<float>& times, int64_t length) {
  for (size_t i = 0; i < times.size(); ++i) {
    if (!std::isfinite(times[i])) return {static_cast<int64_t>(i), true};
    if (static_cast<int64_t>(i) % length != 0 && times[i] < times[i - 1]) return {static_cast<int64_t>(i), false};
  }
  return {};
}

PointPlaces reference_places(const std::vector<float>& points, const VoxelGrid& grid, const VoxelizeOptions& options) {
  PointPlaces places;
  for (size_t p = 0; p < points.size() / 3; ++p) {
    int64_t cell[3] = {0, 0, 0};
    bool nan = false, outside = false;
    for (size_t axis = 0; axis < 3; ++axis) {
      const double quotient = std::floor(
          to_float(to_float(static_cast<double>(points[3 * p + axis]) - static_cast<double>(grid.minimum[axis])) /
                   static_cast<double>(grid.voxel_size)));
      const auto last = static_cast<double>(grid.size[axis] - 1);
      if (std::isnan(quotient)) {
        nan = nan || !options.fast_quotient;
        continue;
      }
      outside = outside || quotient < 0 || quotient > last;
      cell[axis] = static_cast<int64_t>(std::min(std::max(quotient, 0.0), last));
    }
    places.num_nan += nan;
    places.num_outside += outside && !nan;
    const bool kept = !nan && (!outside || options.bounds == OutOfBounds::clamp);
    const int64_t voxel = options.layout == VoxelLayout::xyz
                              ? (cell[0] * grid.size[1] + cell[1]) * grid.size[2] + cell[2]
                              : (cell[2] * grid.size[1] + cell[1]) * grid.size[0] + cell[0];
    places.voxel.push_back(kept ? voxel : -1);
  }
  return places;
}

namespace {

struct Sum {
  double total = 0, magnitude = 0;
};

Expected mean_of(const Sum& sum, double count, bool deterministic, double scale) {
  if (count == 0) return {};
  const double mean = sum.total / count;
  if (!std::isfinite(mean)) return {mean, 0};
  if (deterministic) return {mean, 0.5 / scale + kFloatEpsilon * std::fabs(mean) + 0x1p-148};
  // Tolerance for any order of the additions; GPU additions may flush denormal numbers to zero.
  return {mean, kFloatEpsilon / 2 * (count + 1) * sum.magnitude / count + 0x1p-126};
}

// Maximum of two numbers; -0 is less than 0.
double larger(double a, double b) {
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

}  // namespace

std::vector<Expected> reference_voxels(const PointPlaces& places, const std::vector<double>& features,
                                       int64_t num_features, int64_t num_voxels, const VoxelizeOptions& options,
                                       double scale) {
  const bool has_features = options.mode == VoxelMode::mean || options.mode == VoxelMode::max;
  const int64_t width = has_features ? num_features : 1;
  const auto size = static_cast<size_t>(num_voxels * width);
  std::vector<double> counts(static_cast<size_t>(num_voxels), 0.0);
  std::vector<double> largest(size, -std::numeric_limits<double>::infinity());
  std::vector<Sum> sums(size);
  for (size_t p = 0; p < places.voxel.size(); ++p) {
    if (places.voxel[p] < 0) continue;
    ++counts[static_cast<size_t>(places.voxel[p])];
    for (int64_t f = 0; has_features && f < num_features; ++f) {
      const double feature = features[p * static_cast<size_t>(num_features) + static_cast<size_t>(f)];
      const auto at = static_cast<size_t>(places.voxel[p] * width + f);
      sums[at].total += feature;
      sums[at].magnitude += std::fabs(feature);
      if (!std::isnan(feature)) largest[at] = larger(largest[at], feature);
    }
  }
  std::vector<Expected> expected(size);
  for (size_t at = 0; at < size; ++at) {
    const double count = counts[at / static_cast<size_t>(width)];
    if (options.mode == VoxelMode::mean) {
      expected[at] = mean_of(sums[at], count, options.deterministic, scale);
    } else if (options.mode == VoxelMode::max) {
      // -inf marks an empty voxel, so that parts can be merged without their counts.
      const bool zero = largest[at] == 0 || (std::isinf(largest[at]) && largest[at] < 0);  // of one sign
      const double value = zero ? 0.0 : largest[at];
      expected[at].value = options.zero_floor ? larger(value, 0.0) : value;
    } else {
      expected[at].value = options.mode == VoxelMode::count ? count : std::min(count, 1.0);
    }
  }
  return expected;
}

}  // namespace amdahl::test
