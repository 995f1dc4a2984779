#include "sensor/files/file_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

namespace amdahl {
namespace {

enum class FileKind { table, bin, other };

FileKind kind_of(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension();
  if (ending == ".bin") return FileKind::bin;
  return ending == ".csv" || ending == ".tsv" || ending == ".txt" ? FileKind::table : FileKind::other;
}

struct OptionRow {
  const char* name;
  FileKind kind;
  bool (*given)(const SensorFileOptions& options);
};

constexpr OptionRow kOptions[] = {
    {"`bin_columns`", FileKind::bin, [](const SensorFileOptions& o) { return o.bin_columns != 0; }},
    {"`bin_type`", FileKind::bin, [](const SensorFileOptions& o) { return !o.bin_type.empty(); }},
    {"`time_column`", FileKind::table, [](const SensorFileOptions& o) { return !o.time_column.empty(); }},
    {"`delimiter`", FileKind::table, [](const SensorFileOptions& o) { return o.delimiter != 0; }},
    {"`header`", FileKind::table, [](const SensorFileOptions& o) { return o.header != "auto"; }},
    {"`missing`", FileKind::table, [](const SensorFileOptions& o) { return o.missing != "refuse"; }},
    {"`missing_values`", FileKind::table, [](const SensorFileOptions& o) { return !o.missing_values.empty(); }},
};

}  // namespace

void refuse_options_without_effect(const std::vector<std::string>& paths, const SensorFileOptions& options) {
  for (const OptionRow& option : kOptions)
    if (option.given(options) &&
        std::none_of(paths.begin(), paths.end(), [&](const std::string& path) { return kind_of(path) == option.kind; }))
      throw Error(Cause::usage,
                  fmt::format("{} is about {}, and '{}' is none", option.name,
                              option.kind == FileKind::table ? "a table of samples (.csv, .tsv, .txt)" : "a .bin file",
                              fmt::join(paths, "' or '")),
                  fmt::format("without {}", option.name));
}

SensorFileOptions options_for(const std::string& path, const SensorFileOptions& options) {
  SensorFileOptions of_file;
  const FileKind kind = kind_of(path);
  if (kind == FileKind::table) {
    of_file = options;
    of_file.bin_columns = 0;
    of_file.bin_type.clear();
  } else if (kind == FileKind::bin) {
    of_file.bin_columns = options.bin_columns;
    of_file.bin_type = options.bin_type;
  }
  return of_file;
}

}  // namespace amdahl
