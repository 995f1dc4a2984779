#include "train/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>

#include "base/number_text.h"
#include "files/float_loss.h"
#include "files/whole_file.h"
#include "train/csv_columns.h"
#include "train/windows.h"

namespace amdahl {
namespace {

constexpr size_t kMaxIntegerClasses = 100;
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();  // marks a missing value; internal to this file

/// Values as they are in the file. `targets`, by column: numbers, or category indices of a categorical column.
struct WideRows {
  std::vector<double> features;  // [num_rows, input_width]
  std::vector<std::vector<double>> targets;
};

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

void write_features(const CsvTable& table, const std::vector<const CsvColumn*>& columns, const CsvRow& row,
                    double* out) {
  for (const CsvColumn* column : columns) {
    double value = 0;
    const CellKind kind = table.read(*column, row, value);
    double* at = out + column->first_feature;
    if (kind == CellKind::missing) {
      for (int64_t i = 0; i < column->width(); ++i) at[i] = kMissing;
    } else if (column->categorical) {
      at[column->categories.find(row.fields[column->index])->second] = 1;
    } else {
      *at = value;
    }
  }
}

void read_rows(const CsvTable& table, Dataset& data, WideRows& wide) {
  const auto feature_columns = columns_with(table, CsvColumn::Role::feature);
  const auto target_columns = columns_with(table, CsvColumn::Role::target);
  wide.targets.resize(target_columns.size());
  require_memory(static_cast<double>(table.table.num_rows) * static_cast<double>(data.input_width) *
                     (sizeof(float) + sizeof(double)),
                 fmt::format("{}: {} rows of {} features, one of each word in a column of words,", table.path(),
                             table.table.num_rows, data.input_width),
                 "`ignored` for the columns with the most different words");
  table.for_each_row([&](const CsvRow& row) {
    if (data.num_rows == std::numeric_limits<int32_t>::max())
      throw Error(Cause::data_corrupt,
                  fmt::format("{}, line {}: more than {} rows", table.path(), row.line, data.num_rows),
                  "split the file");
    wide.features.resize(wide.features.size() + static_cast<size_t>(data.input_width), 0.0);
    write_features(table, feature_columns, row, wide.features.data() + data.num_rows * data.input_width);
    for (size_t t = 0; t < target_columns.size(); ++t) {
      const CsvColumn& column = *target_columns[t];
      double value = 0;
      if (column.categorical)
        value = column.categories.find(row.fields[column.index])->second;
      else
        table.read(column, row, value);
      wide.targets[t].push_back(value);
    }
    ++data.num_rows;
  });
  if (data.num_rows == 0)
    throw Error(Cause::data_corrupt, fmt::format("{}: every row has a missing value", table.path()),
                "`missing=mean`, or `ignored` the column with the most of them");
}

/// Replaces missing fields by the mean of the others of their feature (for categories: by their frequencies).
void fill_missing(const CsvTable& table, const Dataset& data, std::vector<double>& features) {
  for (const CsvColumn* column : columns_with(table, CsvColumn::Role::feature)) {
    if (column->missing.count == 0) continue;
    for (int64_t f = column->first_feature; f < column->first_feature + column->width(); ++f) {
      double sum = 0;
      int64_t present = 0;
      for (auto at = static_cast<size_t>(f); at < features.size(); at += static_cast<size_t>(data.input_width)) {
        if (std::isnan(features[at])) continue;
        sum += features[at];
        ++present;
      }
      const double mean = sum / static_cast<double>(present);
      for (auto at = static_cast<size_t>(f); at < features.size(); at += static_cast<size_t>(data.input_width))
        if (std::isnan(features[at])) features[at] = mean;
    }
  }
}

/// Stores the features as floats. A column that would lose more than floats lose after they are standardised becomes
/// relative to its mean, which the standardisation subtracts anyway.
void store_features(const std::vector<double>& wide, Dataset& data) {
  const auto width = static_cast<size_t>(data.input_width);
  const auto rows = static_cast<double>(data.num_rows);
  std::vector<double> mean(width, 0), variance(width, 0), loss(width, 0);
  for (size_t at = 0; at < wide.size(); ++at) {
    mean[at % width] += wide[at] / rows;
    const double change = std::abs(static_cast<double>(static_cast<float>(wide[at])) - wide[at]);
    loss[at % width] = std::max(loss[at % width], change);
  }
  for (size_t at = 0; at < wide.size(); ++at) {
    const double distance = wide[at] - mean[at % width];
    variance[at % width] += distance * distance / rows;
  }
  constexpr double kVisible = 1e-6;  // of the standard deviation
  data.feature_origins.assign(width, 0);
  for (size_t f = 0; f < width; ++f)
    if (loss[f] > kVisible * std::sqrt(variance[f])) data.feature_origins[f] = mean[f];
  data.features.resize(wide.size());
  for (size_t at = 0; at < wide.size(); ++at)
    data.features[at] = static_cast<float>(wide[at] - data.feature_origins[at % width]);
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
    refuse_cell(Cause::data_corrupt, table.path(), table.table.has_header ? 2 : 1, column,
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
                fmt::format("{}: target '{}' has fractions, so it has no classes", table.path(), column.name),
                "`regression`");
  if (classes.empty()) return false;
  std::vector<std::string> names;
  for (const auto& [value, index] : classes) names.push_back(std::to_string(value));
  set_classes(data, table, column, std::move(names));
  for (const double value : values) data.targets.push_back(classes.at(static_cast<int64_t>(value)));
  return true;
}

void set_targets(Dataset& data, const CsvTable& table, const std::vector<std::vector<double>>& targets,
                 CsvOptions::Task task) {
  const auto columns = columns_with(table, CsvColumn::Role::target);
  for (const CsvColumn* column : columns) data.target_names.push_back(column->name);
  if (columns.size() > 1 && task == CsvOptions::Task::classification)
    throw Error(Cause::usage, fmt::format("classification of {} targets at once", columns.size()), "one target column");
  for (const CsvColumn* column : columns)
    if (column->categorical && (columns.size() > 1 || task == CsvOptions::Task::regression))
      refuse_cell(Cause::usage, table.path(), column->words.first_line, *column,
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
  for (size_t t = 0; t < columns.size(); ++t) {
    FloatLoss loss;
    for (const double value : targets[t]) loss.add(value);
    if (loss.is_visible())
      data.warnings.push_back(
          fmt::format("{}, column {} '{}': targets change by up to {} by becoming floats, and differ by about {}: "
                      "subtract an offset in the file",
                      table.path(), columns[t]->index + 1, columns[t]->name, format_number(loss.largest()),
                      format_number(loss.usual_step())));
  }
}

}  // namespace

Dataset load_csv(const CsvOptions& options) {
  CsvTable table = scan_csv(options);
  Dataset data;
  data.name = std::filesystem::path(options.path).stem().string();
  place_features(table, data);
  WideRows wide;
  read_rows(table, data, wide);
  if (options.missing == CsvOptions::Missing::mean) fill_missing(table, data, wide.features);
  store_features(wide.features, data);
  set_targets(data, table, wide.targets, options.task);
  data.notes = std::move(table.table.notes);
  data.input_shape = {data.input_width};
  if (options.window == 0) return data;
  if (data.num_rows < table.table.num_rows)
    throw Error(Cause::usage,
                fmt::format("{}: a window of consecutive rows would join the rows around {} that are dropped for "
                            "missing values",
                            options.path, table.table.num_rows - data.num_rows),
                "`missing=mean`, or a file without them");
  return slide_windows(data, options.window, options.stride, options.path);
}

}  // namespace amdahl
