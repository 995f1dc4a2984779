#include "train/windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "files/whole_file.h"

namespace amdahl {

int64_t num_windows(int64_t values, int64_t window, int64_t stride) {
  return values < window ? 0 : (values - window) / stride + 1;
}

int64_t window_overlap(int64_t window, int64_t stride) { return (window - 1) / stride; }

Dataset slide_windows(const Dataset& rows, int64_t window, int64_t stride, const std::string& origin) {
  if (window < 1 || stride < 1)
    throw Error(Cause::usage, fmt::format("{}: `window` is {} and `stride` is {}", origin, window, stride),
                "at least 1 each");
  const int64_t count = num_windows(rows.num_rows, window, stride);
  if (count < 1)
    throw Error(Cause::usage,
                fmt::format("{}: a window of {} rows is longer than the data, {} rows", origin, window, rows.num_rows),
                fmt::format("`window` of at most {}", rows.num_rows));
  const int64_t width = rows.input_width, targets = rows.target_floats();
  require_memory(static_cast<double>(count) * static_cast<double>(window * width) * sizeof(float),
                 fmt::format("{}: {} windows of {} rows and {} features", origin, count, window, width),
                 "a larger `stride`, or a smaller `window`");
  Dataset windows = rows;
  windows.num_rows = count;
  windows.input_width = window * width;
  windows.input_shape = {window, width};
  windows.overlap = window_overlap(window, stride);
  windows.features.resize(static_cast<size_t>(count * windows.input_width));
  windows.targets.resize(static_cast<size_t>(count * targets));
  for (int64_t w = 0; w < count; ++w) {
    const int64_t first = w * stride, last = first + window - 1;
    std::copy_n(rows.features.begin() + first * width, windows.input_width,
                windows.features.begin() + w * windows.input_width);
    std::copy_n(rows.targets.begin() + last * targets, targets, windows.targets.begin() + w * targets);
  }
  return windows;
}

}  // namespace amdahl
