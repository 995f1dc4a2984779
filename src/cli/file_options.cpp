#include "cli/file_options.h"

namespace amdahl::cli {
namespace {

std::function<void(const std::string&)> number(const char* key, int64_t& member) {
  return [key, &member](const std::string& text) {
    member = parse_whole(text, Unit::count, fmt::format("--data-options {}=", key));
  };
}

std::function<void(const std::string&)> word(std::string& member) {
  return [&member](const std::string& text) { member = text; };
}

/// What tables of every kind have.
void add_table_options(std::vector<DataOption>& all, char& delimiter, std::string& header,
                       std::vector<std::string>& missing_values) {
  all.push_back(
      {"delimiter", "tab", "Between the fields of a table (default: found out)", [&delimiter](const std::string& text) {
         const bool tab = text == "\\t" || text == "tab";
         if (text.size() > 1 && !tab)
           throw Error(Cause::usage, fmt::format("--data-options delimiter='{}' is more than one character", text),
                       "; or tab");
         delimiter = tab ? '\t' : text[0];
       }});
  all.push_back(
      {"header", "no", "Whether the first line of a table names its columns: auto (default), yes or no", word(header)});
  all.push_back({"missing-values", "-999",
                 "A text that marks a missing value beside empty, NA, NaN, null, None and others; may be repeated",
                 [&missing_values](const std::string& text) { missing_values.push_back(text); }});
}

}  // namespace

std::vector<DataOption> training_data_options(DataConfig& data) {
  std::vector<DataOption> all{
      {"ignore", "id", "A column of the CSV file to leave out; may be repeated",
       [&data](const std::string& text) { data.ignored.push_back(text); }},
      {"regression", "", "Treat an integer target as a number, not as classes",
       [&data](const std::string&) { data.regression = true; }},
      {"missing", "drop", "Missing values: refuse (default), drop (the row) or mean", word(data.missing)}};
  add_table_options(all, data.delimiter, data.header, data.missing_values);
  all.push_back({"window", "96",
                 "Consecutive rows of a CSV file per input, or tokens per row (default: what the model takes)",
                 number("window", data.window)});
  all.push_back({"stride", "24",
                 "Rows or tokens from one window to the next (default: 1 in a CSV file, else the window)",
                 number("stride", data.stride)});
  all.push_back({"tokenizer", "words", "Of a text: bytes (default), or words between blanks", word(data.tokenizer)});
  all.push_back({"vocabulary", "5000",
                 "The most words of a text; the last one stands for all others (default: the model's)",
                 number("vocabulary", data.vocabulary)});
  all.push_back({"end-token", "50256",
                 "The token between documents; attention and positions stay within one (default: the model's)",
                 number("end-token", data.end_token)});
  all.push_back(
      {"bin-type", "u32", "Tokens of FILE.bin without a header: u16 (default), u32 or u64", word(data.bin_type)});
  all.push_back({"labels", "FILE.npy", "Classes of the images", word(data.labels_path)});
  return all;
}

std::vector<DataOption> cloud_options(SensorFileOptions& options) {
  return {{"bin-columns", "5", "Numbers of a point in FILE.bin (default: 4 as KITTI, 5 in FILE.pcd.bin as nuScenes)",
           number("bin-columns", options.bin_columns)},
          {"bin-type", "f64", "Numbers of FILE.bin: f32 (default) or f64", word(options.bin_type)}};
}

std::vector<DataOption> track_options(SensorFileOptions& options) {
  std::vector<DataOption> all{
      {"time-column", "t", "Column of the times in a table (default: found by its name)", word(options.time_column)},
      {"missing", "drop", "Samples of a table with a missing value: refuse (default), or drop", word(options.missing)}};
  add_table_options(all, options.delimiter, options.header, options.missing_values);
  return all;
}

void add_data_options(CLI::App* app, std::string& text, const std::vector<DataOption>& known) {
  app->add_option("--data-options", text,
                  fmt::format("How data files are read, for example {}={}; parts: see --help-all", known.front().key,
                              known.front().example))
      ->join(',');
  offer_lists(app, {"--data-options"});
  std::string details = "Parts of --data-options, joined with commas:\n";
  for (const DataOption& one : known) {
    const std::string part = fmt::format("{}{}{}", one.key, *one.example ? "=" : "", one.example);
    details += fmt::format("  {:<23}  {}\n", part, one.help);
  }
  add_details(app, details);
}

void read_data_options(const std::string& text, const std::vector<DataOption>& known) {
  for (const std::string& part : split_list(text)) {
    const size_t equals = std::min(part.find('='), part.size());
    const std::string key = part.substr(0, equals), value = part.substr(std::min(equals + 1, part.size()));
    std::vector<std::pair<std::string, const DataOption*>> choices;
    for (const DataOption& one : known) choices.emplace_back(one.key, &one);
    const DataOption& found = *one_of<const DataOption*>("--data-options", key, choices);
    if (value.empty() != (*found.example == 0))
      throw Error(Cause::usage, fmt::format("--data-options {}", part),
                  fmt::format("--data-options {}{}{}", key, *found.example ? "=" : "", found.example));
    found.set(value);
  }
}

}  // namespace amdahl::cli
