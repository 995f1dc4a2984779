// `--data-options`: how data files are read, alike in all commands that read them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "amdahl/sensor.h"
#include "amdahl/training.h"
#include "cli/option_values.h"

namespace amdahl::cli {

/// One part of `--data-options`: "window=96", or "regression" without a value.
struct DataOption {
  const char* key;
  const char* example;  // value; empty for a flag
  const char* help;
  std::function<void(const std::string& value)> set;
};

std::vector<DataOption> training_data_options(DataConfig& data);
std::vector<DataOption> cloud_options(SensorFileOptions& options);
std::vector<DataOption> track_options(SensorFileOptions& options);

/// Adds `--data-options`, whose parts --help-all describes.
void add_data_options(CLI::App* app, std::string& text, const std::vector<DataOption>& known);
/// Error{usage} for unknown parts and values that are no numbers.
void read_data_options(const std::string& text, const std::vector<DataOption>& known);

}  // namespace amdahl::cli
