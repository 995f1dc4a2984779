// Axes of records as reports read them.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// An axis of that type, or `fallback`.
template <class T>
T axis(const Record& record, const char* name, T fallback) {
  const auto found = record.axes.find(name);
  const T* value = found == record.axes.end() ? nullptr : std::get_if<T>(&found->second);
  return value ? *value : fallback;
}

/// A text axis, empty without it.
inline std::string word(const Record& record, const char* name) { return axis<std::string>(record, name, ""); }

/// Samples of a series, null without any.
inline const std::vector<double>* find_samples(const Record& record, const char* name) {
  for (const Series& series : record.series)
    if (series.name == name && !series.samples.empty()) return &series.samples;
  return nullptr;
}

/// "all_reduce, f32, sum over 2 GPUs": what a sweep measures, without how.
std::string sweep_text(const Record& record);

}  // namespace amdahl
