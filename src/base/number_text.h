// Text forms of numbers, intervals and devices, common to all reports and charts.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "amdahl/summary.h"

namespace amdahl {

/// ascii: "+-", "->". utf8: also "±", "→", "×".
enum class Charset { utf8, ascii };

/// Words for the devices of a run. CPU virtual devices are never called GPUs.
struct DeviceWords {
  std::string_view one;     // "GPU", "CPU virtual device"
  std::string_view many;    // "GPUs", "CPU virtual devices"
  std::string_view single;  // "single GPU"
  std::string_view multi;   // "multi-GPU"
};
DeviceWords device_text(std::string_view device_kind);

/// Readable name of an axis or series without its unit: "global batch" for "global_batch", "parameters" for
/// "num_parameters", "bucket" for "bucket_bytes".
std::string format_axis(std::string_view axis);

/// At least three significant digits, thousands grouped: "16,883", "0.0123", "81.4".
std::string format_number(double value);
/// At least `significant` significant digits.
std::string format_number(double value, int significant);
/// Three significant digits: "41.3M", "1.24G", "812".
std::string short_number(double value);
/// "1,234 ± 45"; without an interval the number alone.
std::string format_plus_minus(double mean, const std::optional<Interval>& ci, Charset charset = Charset::utf8);
/// "1.78x [1.75, 1.81]"; without an interval "1.78x [n/a]".
std::string format_speedup(double ratio, const std::optional<Interval>& ci);
/// "41 %".
std::string format_percent(double fraction);
/// "p < 0.0001" or "p = 0.031".
std::string format_p(double p);

/// 33554432 as "32 MiB"; sizes that are not a whole number of KiB, MiB or GiB in bytes, "1,000 B".
std::string binary_bytes(int64_t bytes);

}  // namespace amdahl
