#include "setup/data_files.h"

#include <fmt/format.h>

#include <filesystem>

#include "files/token_file.h"
#include "files/whole_file.h"
#include "train/csv.h"
#include "train/dataset.h"
#include "train/token_dataset.h"

namespace amdahl {
namespace {

enum DataKind : unsigned { kTable = 1, kTokens = 2, kText = 4, kImages = 8 };

struct KindRow {
  DataKind kind;
  const char* what;
};

KindRow kind_of(const std::string& path) {
  const std::string ending = unpacked_name(path).extension().string();
  if (ending == ".bin") return {kTokens, "a file of tokens"};
  if (ending == ".txt") return {kText, "a text"};
  if (ending == ".npy") return {kImages, "an array of images"};
  return {kTable, "a CSV file"};
}

/// An option, the kinds of file that it has an effect on, and whether it was given.
struct FileOption {
  const char* name;
  unsigned kinds;
  const char* about;
  bool (*given)(const DataConfig& data);
};

constexpr FileOption kFileOptions[] = {
    {"`targets`", kTable, "a CSV file", [](const DataConfig& d) { return !d.targets.empty(); }},
    {"`ignored`", kTable, "a CSV file", [](const DataConfig& d) { return !d.ignored.empty(); }},
    {"`missing`", kTable, "a CSV file", [](const DataConfig& d) { return d.missing != "refuse"; }},
    {"`delimiter`", kTable, "a CSV file", [](const DataConfig& d) { return d.delimiter != 0; }},
    {"`missing_values`", kTable, "a CSV file", [](const DataConfig& d) { return !d.missing_values.empty(); }},
    {"`header`", kTable, "a CSV file", [](const DataConfig& d) { return d.header != "auto"; }},
    {"`bin_type`", kTokens, "a file of tokens", [](const DataConfig& d) { return !d.bin_type.empty(); }},
    {"`regression`", kTable, "a CSV file", [](const DataConfig& d) { return d.regression; }},
    {"`window`", kTable | kTokens | kText, "a file of rows or tokens",
     [](const DataConfig& d) { return d.window != 0; }},
    {"`stride`", kTable | kTokens | kText, "a file of rows or tokens",
     [](const DataConfig& d) { return d.stride != 0; }},
    {"`tokenizer`", kText, "a text", [](const DataConfig& d) { return d.tokenizer != "bytes"; }},
    {"`vocabulary`", kTokens | kText, "a file of tokens or text",
     [](const DataConfig& d) { return d.vocabulary != 0; }},
    {"`end_token`", kTokens | kText, "a file of tokens or text", [](const DataConfig& d) { return d.end_token >= 0; }},
    {"`labels_path`", kImages, "images", [](const DataConfig& d) { return !d.labels_path.empty(); }},
};

void require_effect(const DataConfig& data, const KindRow& row) {
  for (const FileOption& option : kFileOptions)
    if (option.given(data) && (option.kinds & row.kind) == 0)
      throw Error(Cause::usage,
                  fmt::format("{} is about {}, and '{}' is {}", option.name, option.about, data.data_path, row.what),
                  fmt::format("without {}", option.name));
}

Dataset load_table(const DataConfig& data, const ModelInput& model) {
  if (data.targets.empty())
    throw Error(Cause::usage, fmt::format("'{}' needs a target column", data.data_path), "`targets=COLUMN[,COLUMN]`");
  const int64_t window = data.window != 0 ? data.window : model.steps;
  if (data.stride != 0 && window == 0)
    throw Error(Cause::usage, "`stride` is given without `window`", "`window` with the rows per input");
  CsvOptions options;
  options.path = data.data_path;
  options.target_columns = data.targets;
  options.ignore_columns = data.ignored;
  options.table = {data.delimiter, header_choice(data.header), data.missing_values};
  options.task = data.regression ? CsvOptions::Task::regression : CsvOptions::Task::automatic;
  options.window = window;
  options.stride = data.stride == 0 ? 1 : data.stride;
  if (data.missing == "drop") {
    options.missing = CsvOptions::Missing::drop_row;
  } else if (data.missing == "mean") {
    options.missing = CsvOptions::Missing::mean;
  } else if (data.missing != "refuse") {
    throw Error(Cause::usage, fmt::format("`missing`: unknown treatment '{}' of missing values", data.missing),
                choices_hint(data.missing, {"refuse", "drop", "mean"}));
  }
  return load_csv(options);
}

Dataset load_tokens(const DataConfig& data, const ModelInput& model, bool text) {
  const TokenRows rows{.steps = data.window != 0 ? data.window : model.steps,
                       .stride = data.stride,
                       .vocabulary = model.vocabulary != 0 ? model.vocabulary : data.vocabulary};
  if (rows.steps == 0)
    throw Error(Cause::usage, fmt::format("'{}' needs a number of tokens per row", data.data_path),
                "`window=TOKENS`, for example 256");
  if (data.vocabulary > rows.vocabulary || (!text && data.vocabulary != 0 && data.vocabulary != rows.vocabulary))
    throw Error(Cause::usage,
                fmt::format("`vocabulary` is {}, and the model has one of {}", data.vocabulary, rows.vocabulary),
                "without `vocabulary`, or another model");
  const int64_t limit = data.vocabulary != 0 ? data.vocabulary : model.vocabulary;
  return make_token_dataset(text ? tokenize_file(data.data_path, data.tokenizer, limit)
                                 : load_token_file(data.data_path, token_width(data.bin_type)),
                            rows);
}

Dataset load_pictures(const DataConfig& data) {
  if (data.labels_path.empty())
    throw Error(Cause::usage, fmt::format("'{}' needs a file of labels", data.data_path), "`labels_path=FILE.npy`");
  return load_images(data.data_path, data.labels_path);
}

}  // namespace

bool has_table_features(const DataConfig& data) {
  return !data.data_path.empty() && kind_of(data.data_path).kind == kTable;
}

void refuse_file_options(const DataConfig& data) {
  for (const FileOption& option : kFileOptions)
    if (option.given(data))
      throw Error(Cause::usage,
                  fmt::format("{} is about {} but there is no `data_path` file", option.name, option.about),
                  "`data_path=FILE`");
}

Dataset load_data_file(const DataConfig& data, const ModelInput& model) {
  if (data.window < 0 || data.stride < 0 || data.vocabulary < 0)
    throw Error(
        Cause::usage,
        fmt::format("`window` is {}, `stride` {} and `vocabulary` {}", data.window, data.stride, data.vocabulary),
        "at least 0 each");
  std::error_code error;
  if (!std::filesystem::exists(data.data_path, error)) open_file(data.data_path, Cause::usage);  // says so first
  const KindRow row = kind_of(data.data_path);
  require_effect(data, row);
  if (row.kind == kTable) return load_table(data, model);
  if (row.kind == kImages) return load_pictures(data);
  return load_tokens(data, model, row.kind == kText);
}

}  // namespace amdahl
