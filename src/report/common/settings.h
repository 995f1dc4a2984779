// Settings of a Record as people write them: one place for the titles, tables, labels and sentences of all reports.
#pragma once

#include <string>
#include <string_view>

#include "amdahl/record.h"

namespace amdahl {

/// The value of an axis in a column that format_axis names: "25 MiB" of bucket_bytes, "on" of overlap, "54,403" of
/// num_parameters.
std::string axis_value(std::string_view axis, const AxisValue& value);

/// The axis and its value in a sentence: "buckets of 25 MiB", "54,403 parameters", "2 devices", "strong scaling",
/// "global batch 64". Empty when the value is.
std::string setting_text(std::string_view axis, const AxisValue& value);

/// Like these for a value as a user types it, "26214400" or "true".
AxisValue typed_value(const std::string& text);

}  // namespace amdahl
