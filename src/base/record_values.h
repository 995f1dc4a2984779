// Axes and samples of a record by name.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// The value of an axis of type T, otherwise `fallback`.
template <class T>
T axis(const Record& record, const char* name, T fallback) {
  const auto found = record.axes.find(name);
  const T* value = found == record.axes.end() ? nullptr : std::get_if<T>(&found->second);
  return value ? *value : fallback;
}

/// The value of a text axis; empty when it is missing.
inline std::string text_axis(const Record& record, const char* name) { return axis<std::string>(record, name, ""); }

/// Samples of a series; empty when it is missing.
inline const std::vector<double>& samples_of(const Record& record, std::string_view name) {
  static const std::vector<double> none;
  for (const Series& series : record.series)
    if (series.name == name && !series.samples.empty()) return series.samples;
  return none;
}

}  // namespace amdahl
