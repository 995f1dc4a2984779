#include "train/csv.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "files/whole_file.h"
#include "train/csv_columns.h"
#include "train/windows.h"

namespace amdahl {
namespace {

constexpr size_t kMaxIntegerClasses = 100;
constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();  // marks a missing value; internal to this file

/// Raw target values: numbers, or category indices of a categorical column.
using TargetColumns = std::vector<std::vector<double>>;

std::vector<const CsvColumn*> columns_with(const CsvTable& table, CsvColumn::Role role) {
  std::vector<const CsvColumn*> chosen;
  for (const CsvColumn& column : table.columns)
    if (column.role == role) chosen.push_back(&column);
  return chosen;
}

/// Assigns feature indices and names to the columns.
void place_features(CsvTable& table, Dataset& data) {
  for (CsvColumn& column : table.columns) {
    if (column.role != CsvColumn::Role::feature) continue;
    column.first_feature = data.input_width;
    data.input_width += column.width();
    if (!column.categorical) data.feature_names.push_back(column.name);
    for (const auto& [value, position] : column.categories)
      data.feature_names.push_back(fmt::format("{}={}", column.name, value));
  }
}

void write_features(const std::vector<const CsvColumn*>& columns, const CsvRow& row, float* out) {
  for (const CsvColumn* column : columns) {
    const std::string_view cell = row.fields[column->index];
    double value = 0;
    const CellKind kind = classify_cell(cell, value);
    float* at = out + column->first_feature;
    if (kind == CellKind::missing) {
      for (int64_t i = 0; i < column->width(); ++i) at[i] = kMissing;
    } else if (column->categorical) {
      at[column->categories.find(cell)->second] = 1.0f;
    } else {
      *at = static_cast<float>(value);
    }
  }
}

void read_rows(const CsvTable& table, Dataset& data, TargetColumns& targets) {
  const auto feature_columns = columns_with(table, CsvColumn::Role::feature);
  const auto target_columns = columns_with(table, CsvColumn::Role::target);
  targets.resize(target_columns.size());
  require_memory(static_cast<double>(table.num_rows) * static_cast<double>(data.input_width) * sizeof(float),
                 fmt::format("{}: {} rows of {} features, one of each word in a column of words,", table.text.path,
                             table.num_rows, data.input_width),
                 "`ignored` for the columns with the most different words");
  table.for_each_row([&](const CsvRow& row) {
    if (data.num_rows == std::numeric_limits<int32_t>::max())
      throw Error(Cause::data_corrupt,
                  fmt::format("{}, line {}: more than {} rows", table.text.path, row.line, data.num_rows),
                  "split the file");
    data.features.resize(data.features.size() + static_cast<size_t>(data.input_width), 0.0f);
    write_features(feature_columns, row, data.features.data() + data.num_rows * data.input_width);
    for (size_t t = 0; t < target_columns.size(); ++t) {
      const CsvColumn& column = *target_columns[t];
      const std::string_view cell = row.fields[column.index];
      double value = 0;
      if (column.categorical) {
        value = column.categories.find(cell)->second;
      } else {
        classify_cell(cell, value);
      }
      targets[t].push_back(value);
    }
    ++data.num_rows;
  });
  if (data.num_rows == 0)
    throw Error(Cause::data_corrupt, fmt::format("{}: every row has a missing value", table.text.path),
                "`missing=mean`, or `ignored` the column with the most of them");
}

/// Replaces missing fields by the mean of the others of their feature (for categories: by their frequencies).
void fill_missing(const CsvTable& table, Dataset& data) {
  for (const CsvColumn* column : columns_with(table, CsvColumn::Role::feature)) {
    if (column->missing.count == 0) continue;
    for (int64_t f = column->first_feature; f < column->first_feature + column->width(); ++f) {
      double sum = 0;
      int64_t present = 0;
      for (int64_t row = 0; row < data.num_rows; ++row) {
        const float value = data.features[static_cast<size_t>(row * data.input_width + f)];
        if (std::isnan(value)) continue;
        sum += static_cast<double>(value);
        ++present;
      }
      const auto mean = static_cast<float>(sum / static_cast<double>(present));
      for (int64_t row = 0; row < data.num_rows; ++row) {
        float& value = data.features[static_cast<size_t>(row * data.input_width + f)];
        if (std::isnan(value)) value = mean;
      }
    }
  }
}

/// Maps the distinct integer values, ascending, to class indices; empty when some value is not an integer or there are
/// more than `limit`.
std::map<int64_t, float> integer_classes(const std::vector<double>& values, size_t limit) {
  std::map<int64_t, float> classes;
  for (const double value : values) {
    if (value != std::floor(value) || std::abs(value) > 0x1p53) return {};
    classes.emplace(static_cast<int64_t>(value), 0.0f);
    if (classes.size() > limit) return {};
  }
  float next = 0;
  for (auto& [value, index] : classes) index = next++;
  return classes;
}

void set_classes(Dataset& data, const CsvTable& table, const CsvColumn& column, std::vector<std::string> names) {
  if (names.size() < 2)
    refuse_cell(Cause::data_corrupt, table.text.path, table.has_header ? 2 : 1, column,
                fmt::format("every row is of the same class '{}'", names.front()),
                column.categorical ? "a target with at least two values"
                                   : "a target with at least two values, or `regression`");
  data.loss = LossKind::softmax_cross_entropy;
  data.output_width = static_cast<int64_t>(names.size());
  data.class_names = std::move(names);
}

/// Stores one target as class indices, if it qualifies. Returns false when it is numeric.
bool set_class_target(Dataset& data, const CsvTable& table, const CsvColumn& column, const std::vector<double>& values,
                      CsvOptions::Task task) {
  if (column.categorical) {
    std::vector<std::string> names;
    for (const auto& [value, position] : column.categories) names.push_back(value);
    set_classes(data, table, column, std::move(names));
    data.targets.assign(values.begin(), values.end());
    return true;
  }
  const bool asked = task == CsvOptions::Task::classification;
  const auto classes = integer_classes(values, asked ? values.size() : kMaxIntegerClasses);
  if (asked && classes.empty())
    throw Error(Cause::usage,
                fmt::format("{}: target '{}' has fractions, so it has no classes", table.text.path, column.name),
                "`regression`");
  if (classes.empty()) return false;
  std::vector<std::string> names;
  for (const auto& [value, index] : classes) names.push_back(std::to_string(value));
  set_classes(data, table, column, std::move(names));
  for (const double value : values) data.targets.push_back(classes.at(static_cast<int64_t>(value)));
  return true;
}

void set_targets(Dataset& data, const CsvTable& table, const TargetColumns& targets, CsvOptions::Task task) {
  const auto columns = columns_with(table, CsvColumn::Role::target);
  for (const CsvColumn* column : columns) data.target_names.push_back(column->name);
  if (columns.size() > 1 && task == CsvOptions::Task::classification)
    throw Error(Cause::usage, fmt::format("classification of {} targets at once", columns.size()), "one target column");
  for (const CsvColumn* column : columns)
    if (column->categorical && (columns.size() > 1 || task == CsvOptions::Task::regression))
      refuse_cell(Cause::usage, table.text.path, column->words.first_line, *column,
                  fmt::format("'{}' is no number to regress on", column->words.first_text),
                  "this column as the only target, or numeric targets");
  if (columns.size() == 1 && task != CsvOptions::Task::regression &&
      set_class_target(data, table, *columns[0], targets[0], task))
    return;
  data.loss = LossKind::mse;
  data.output_width = static_cast<int64_t>(columns.size());
  data.targets.reserve(static_cast<size_t>(data.num_rows * data.output_width));
  for (size_t row = 0; row < static_cast<size_t>(data.num_rows); ++row)
    for (const std::vector<double>& column : targets) data.targets.push_back(static_cast<float>(column[row]));
}

}  // namespace

Dataset load_csv(const CsvOptions& options) {
  CsvTable table = scan_csv(options);
  Dataset data;
  data.name = std::filesystem::path(options.path).stem().string();
  place_features(table, data);
  TargetColumns targets;
  read_rows(table, data, targets);
  if (options.missing == CsvOptions::Missing::mean) fill_missing(table, data);
  set_targets(data, table, targets, options.task);
  data.input_shape = {data.input_width};
  if (options.window == 0) return data;
  if (data.num_rows < table.num_rows)
    throw Error(Cause::usage,
                fmt::format("{}: a window of consecutive rows would join the rows around {} that are dropped for "
                            "missing values",
                            options.path, table.num_rows - data.num_rows),
                "`missing=mean`, or a file without them");
  return slide_windows(data, options.window, options.stride, options.path);
}

}  // namespace amdahl
