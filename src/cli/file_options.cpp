#include "cli/file_options.h"

namespace amdahl::cli {

void add_table_options(CLI::App* app, TableTexts& texts, std::string& header) {
  app->add_option("--delimiter", texts.delimiter,
                  "Field delimiter of a table, for example ; or tab (default: found out)");
  app->add_option("--header", header, "Whether the first line of a table names its columns: auto, yes or no")
      ->capture_default_str();
  app->add_option("--missing-values", texts.missing_values,
                  "Texts that mark a missing value beside empty, NA, NaN, null, None and others, for example -,-999");
  offer(app, "--header", {"auto", "yes", "no"});
  offer_lists(app, {"--missing-values"});
}

void finish_table_options(const TableTexts& texts, char& delimiter, std::vector<std::string>& missing_values) {
  if (texts.delimiter.size() > 1 && texts.delimiter != "\\t" && texts.delimiter != "tab")
    throw Error(Cause::usage, fmt::format("--delimiter '{}' is more than one character", texts.delimiter), "; or tab");
  if (!texts.delimiter.empty()) delimiter = texts.delimiter.size() > 1 ? '\t' : texts.delimiter[0];
  missing_values = split_list(texts.missing_values);
}

void add_cloud_file_options(CLI::App* app, SensorFileOptions& options) {
  app->add_option("--bin-columns", options.bin_columns,
                  "Numbers of a point in FILE.bin (default: 4 as KITTI, 5 in FILE.pcd.bin as nuScenes)")
      ->check(kWhole);
  app->add_option("--bin-type", options.bin_type, "Numbers of FILE.bin: f32 or f64 (default: f32)");
  offer(app, "--bin-type", {"f32", "f64"});
}

void add_track_file_options(CLI::App* app, TableTexts& texts, SensorFileOptions& options) {
  app->add_option("--time-column", options.time_column, "Column of the times in a table (default: found by its name)");
  app->add_option("--missing", options.missing, "Samples of a table with a missing value: refuse, or drop")
      ->capture_default_str();
  add_table_options(app, texts, options.header);
  offer(app, "--missing", {"refuse", "drop"});
}

}  // namespace amdahl::cli
