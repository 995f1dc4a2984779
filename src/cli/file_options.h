// Options that say how data files are to be read, alike in all commands that read them.
#pragma once

#include <string>
#include <vector>

#include "amdahl/sensor_files.h"
#include "cli/option_values.h"

namespace amdahl::cli {

/// Raw texts, converted after parsing.
struct TableTexts {
  std::string delimiter, missing_values;
};

/// `--delimiter`, `--header`, `--missing-values`.
void add_table_options(CLI::App* app, TableTexts& texts, std::string& header);
void finish_table_options(const TableTexts& texts, char& delimiter, std::vector<std::string>& missing_values);

/// `--bin-columns` and `--bin-type` of clouds.
void add_cloud_file_options(CLI::App* app, SensorFileOptions& options);
/// `--time-column`, `--missing` and those of tables.
void add_track_file_options(CLI::App* app, TableTexts& texts, SensorFileOptions& options);

}  // namespace amdahl::cli
