// Resample and fuse: resample streams from a file to common times.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "amdahl/error.h"
#include "amdahl/sensor.h"
#include "base/number_text.h"
#include "sensor/verbs/memory.h"

namespace amdahl {
namespace {

using Streams = std::vector<Trajectories>;

const double* row_times(const Trajectories& stream, int64_t b) { return stream.times.data() + b * stream.length; }

/// Begin and end of the target times of one batch row.
struct Window {
  double begin, end;
};

std::vector<Window> find_windows(const TimelineConfig& config, const Streams& streams) {
  std::vector<Window> windows;
  for (int64_t b = 0; b < streams.front().batch; ++b) {
    Window window{-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
    for (const Trajectories& stream : streams) {
      window.begin = std::max(window.begin, row_times(stream, b)[0]);
      window.end = std::min(window.end, row_times(stream, b)[stream.length - 1]);
    }
    window = {config.begin.value_or(window.begin), config.end.value_or(window.end)};
    if (!std::isfinite(window.begin) || !std::isfinite(window.end) || window.end < window.begin)
      throw Error(Cause::usage,
                  fmt::format("{}, trajectory {}: targets would begin at {} and end at {}: there is no time between",
                              config.input, b, window.begin, window.end),
                  "`begin` and `end`, for streams that share no time or other windows");
    windows.push_back(window);
  }
  return windows;
}

/// The number of targets that the rate asks for, as a number, and over which times.
Error too_many_targets(const TimelineConfig& config, const Window& longest, double count) {
  return {
      Cause::usage,
      fmt::format("`rate_hz` {} asks for {:.10g} targets between {} and {}: the rate counts per unit of these times",
                  *config.rate_hz, count, longest.begin, longest.end),
      "a lower rate, like 5e-8 where the times are in ns and 50 per second are meant, or times in seconds"};
}

int64_t count_targets(const TimelineConfig& config, const std::vector<Window>& windows, int64_t width) {
  if (config.rate_hz.has_value() == (config.num_targets != 0))
    throw Error(Cause::usage, "targets need either `rate_hz` or `num_targets`", "`rate_hz=50`, or `num_targets=100`");
  if (!config.rate_hz) {
    if (config.num_targets < 1)
      throw Error(Cause::usage, fmt::format("`num_targets` is {}", config.num_targets), "at least 1");
    return config.num_targets;
  }
  if (!(*config.rate_hz > 0) || !std::isfinite(*config.rate_hz))
    throw Error(Cause::usage, fmt::format("`rate_hz` is {}", *config.rate_hz), "targets per second, above 0");
  const Window longest = *std::max_element(windows.begin(), windows.end(), [](const Window& a, const Window& b) {
    return a.end - a.begin < b.end - b.begin;
  });
  // fraction of a step: a rate that divides the window includes its end in spite of rounding
  constexpr double kSlack = 1e-6;
  const double count = std::floor((longest.end - longest.begin) * *config.rate_hz + kSlack) + 1;
  // of a target: its time in double and float, and its values
  const double bytes = static_cast<double>(sizeof(double)) + sizeof(float) * static_cast<double>(1 + width);
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  constexpr double kMost = 1e12;
  if (!(count < kMost) || count * bytes * static_cast<double>(windows.size()) > memory)
    throw too_many_targets(config, longest, count);
  return static_cast<int64_t>(count);
}

/// Target times [B, T]. With a rate, times count from each row's begin; with a number, they are evenly spaced and the
/// last is at the end.
std::vector<double> make_targets(const TimelineConfig& config, const std::vector<Window>& windows, int64_t count) {
  std::vector<double> targets;
  targets.reserve(windows.size() * static_cast<size_t>(count));
  for (const Window& window : windows)
    for (int64_t i = 0; i < count; ++i) {
      const double share = count > 1 ? static_cast<double>(i) / static_cast<double>(count - 1) : 0;
      targets.push_back(config.rate_hz ? window.begin + static_cast<double>(i) / *config.rate_hz
                                       : window.begin + share * (window.end - window.begin));
    }
  return targets;
}

/// The operation takes float times, which have 7 digits: absolute times (time of day, or since 1970) need a nearer
/// origin.
std::vector<float> times_from(double origin, const std::vector<double>& times) {
  std::vector<float> floats;
  floats.reserve(times.size());
  for (const double time : times) floats.push_back(static_cast<float>(time - origin));
  return floats;
}

void look_at_times(const Streams& streams, const std::vector<double>& targets, TimelineOutcome& outcome) {
  const auto [first, last] = std::minmax_element(targets.begin(), targets.end());
  outcome.first = *first;
  outcome.last = *last;
  outcome.origin = std::numeric_limits<double>::infinity();
  const auto count = static_cast<size_t>(outcome.shape[1]);
  for (const Trajectories& stream : streams) {
    for (int64_t b = 0; b < stream.batch; ++b) {
      const double begin = row_times(stream, b)[0], end = row_times(stream, b)[stream.length - 1];
      outcome.origin = std::min(outcome.origin, begin);
      for (size_t i = 0; i < count; ++i) {
        const double target = targets[static_cast<size_t>(b) * count + i];
        outcome.num_outside += target < begin || target > end;
      }
    }
  }
  for (const Trajectories& stream : streams) {
    const double reach = row_times(stream, stream.batch - 1)[stream.length - 1] - outcome.origin;
    const double step =
        (row_times(stream, stream.batch - 1)[stream.length - 1] - row_times(stream, stream.batch - 1)[0]) /
        static_cast<double>(std::max<int64_t>(1, stream.length - 1));
    const auto far = static_cast<float>(reach);
    const auto spacing = static_cast<double>(std::nextafter(far, std::numeric_limits<float>::infinity()) - far);
    constexpr double kVisible = 0.01;  // fraction of the time between two samples
    constexpr int kDigits = 6;
    if (step > 0 && spacing > kVisible * step)
      outcome.warnings.push_back(
          fmt::format("times reach {} from the first, where floats are {} apart, and samples are {} apart: "
                      "cut the file "
                      "into shorter parts",
                      format_number(reach, kDigits), format_number(spacing), format_number(step)));
  }
}

void save_series(const TimelineConfig& config, const TimelineOutcome& outcome, const std::vector<double>& targets,
                 const void* values) {
  const FileArray array{"values", DType::f32, outcome.shape, values};
  if (!config.output.ends_with(".npz"))
    save_array(config.output, array);
  else
    save_arrays(config.output, {{"times", DType::f64, {outcome.shape[0], outcome.shape[1]}, targets.data()}, array});
}

void compute(const TimelineConfig& config, const Streams& streams, const std::vector<double>& targets,
             TimelineOutcome& outcome) {
  SensorMemory memory(config.place);
  outcome.device = memory.device_name();
  std::vector<SensorStream> inputs;
  for (const Trajectories& stream : streams)
    inputs.push_back({memory.put(stream.values, {stream.batch, stream.length, stream.width}),
                      memory.put(times_from(outcome.origin, stream.times), {stream.batch, stream.length})});
  const ConstTensor target_times =
      memory.put(times_from(outcome.origin, targets), {outcome.shape[0], outcome.shape[1]});
  const Tensor output = memory.allocate(DType::f32, outcome.shape);
  FuseOptions options;
  options.extrapolation = config.extrapolation;
  memory.preprocessor().fuse_multimodal(inputs, target_times, output, options);
  const void* values = memory.fetch(output);
  if (!config.output.empty()) save_series(config, outcome, targets, values);
}

void require_one_batch(const TimelineConfig& config, const Streams& streams) {
  for (const Trajectories& stream : streams)
    if (stream.batch != streams.front().batch)
      throw Error(Cause::usage,
                  fmt::format("{}: stream '{}' has a batch of {}, and '{}' one of {}", config.input,
                              streams.front().name, streams.front().batch, stream.name, stream.batch),
                  "streams with the same trajectories");
}

TimelineOutcome run(const TimelineConfig& config, Streams streams) {
  require_one_batch(config, streams);
  const std::vector<Window> windows = find_windows(config, streams);
  TimelineOutcome outcome;
  int64_t width = 0;
  for (const Trajectories& stream : streams) {
    width += stream.width;
    for (const std::string& warning : stream.warnings) outcome.warnings.push_back(named(warning));
  }
  outcome.shape = {streams.front().batch, count_targets(config, windows, width), width};
  const double bytes = static_cast<double>(outcome.shape[0]) * static_cast<double>(outcome.shape[1]) * sizeof(double);
  constexpr double kMostBytes = 1e9;  // of target times only: more than 100 million
  if (bytes > kMostBytes)
    throw Error(Cause::out_of_memory,
                fmt::format("{} targets per trajectory take {}", outcome.shape[1], format_bytes(bytes)),
                "a lower `rate_hz`, or fewer `num_targets`");
  try {
    const std::vector<double> targets = make_targets(config, windows, outcome.shape[1]);
    look_at_times(streams, targets, outcome);
    compute(config, streams, targets, outcome);
  } catch (const std::bad_alloc&) {
    throw Error(
        Cause::out_of_memory,
        fmt::format("{} targets per trajectory of {} values do not fit into the memory", outcome.shape[1], width),
        "a lower `rate_hz`, or fewer `num_targets`");
  }
  for (Trajectories& stream : streams) {
    stream.times.clear();
    stream.values.clear();
  }
  outcome.streams = std::move(streams);
  return outcome;
}

}  // namespace

TimelineOutcome run_resample(const TimelineConfig& config) {
  require_array_output(config.output);
  Streams streams = load_trajectories(config.input, config.file);
  std::vector<std::string> names;
  for (const Trajectories& stream : streams) names.push_back(stream.name);
  if (config.stream.empty() && streams.size() > 1)
    throw Error(Cause::usage, fmt::format("{} has {} streams", config.input, streams.size()),
                fmt::format("`stream` with one of {}; or amdahl sensor resample `fuse`", fmt::join(names, ", ")));
  if (!config.stream.empty())
    std::erase_if(streams, [&](const Trajectories& stream) { return stream.name != config.stream; });
  if (streams.empty())
    throw Error(Cause::usage, fmt::format("{} has no stream '{}'", config.input, config.stream),
                choices_hint(config.stream, names));
  return run(config, std::move(streams));
}

TimelineOutcome run_fuse(const TimelineConfig& config) {
  require_array_output(config.output);
  return run(config, load_trajectories(config.input, config.file));
}

}  // namespace amdahl
