// Reading records.jsonl.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "amdahl/units.h"
#include "spec/json_fields.h"
#include "spec/run_folder.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

void read_header(const Fields& fields, const std::string& origin, RunContents& contents) {
  if (fields.text("type") != "run")
    throw Error(Cause::store_corrupt, fmt::format("{}: the first line is not the header of a run", origin),
                damage_remedy(Cause::store_corrupt));
  fields.require_version();
  contents.header.kind = fields.text("kind");
  contents.header.config = fields.text_map("config");
}

void read_line(std::string_view line, const std::string& origin, bool first, RunContents& contents) {
  const json document = parse_document(line, origin, Cause::store_corrupt);
  const Fields fields(document, origin, "", Cause::store_corrupt);
  if (first) return read_header(fields, origin, contents);
  const std::string type = fields.text("type");
  if (type == "provenance") {
    contents.provenance[fields.text("id")] = read_provenance(fields);
  } else if (type == "record") {
    Record record = read_record(fields);
    const auto found = contents.provenance.find(fields.text("provenance"));
    if (found == contents.provenance.end())
      fields.fail("provenance", fmt::format("names \"{}\", which no earlier line defines", fields.text("provenance")));
    record.provenance = found->second;
    record.source = origin;
    contents.records.push_back(std::move(record));
  } else {
    contents.notes.push_back(
        fmt::format("{}: a line of type \"{}\" was left out; a newer amdahl wrote it", origin, printable(type, 80)));
  }
}

}  // namespace

RunContents read_run(const fs::path& path) {
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? path / kRecordsFile : path;
  if (!fs::exists(file, error))
    throw Error(Cause::usage, fmt::format("{}: no run is stored there", path.string()),
                fmt::format("a folder that holds a {}", kRecordsFile));
  const std::string text = read_file(file, Cause::store_corrupt);
  RunContents contents;
  size_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    ++number;
    const size_t end = text.find('\n', begin);
    if (end == std::string::npos) {
      contents.notes.push_back(
          fmt::format("{}:{}: the last line is truncated ({} bytes); the record that was being "
                      "written when the run ended is lost, all earlier ones are there",
                      file.string(), number, text.size() - begin));
      break;
    }
    read_line(std::string_view(text).substr(begin, end - begin), fmt::format("{}:{}", file.string(), number),
              number == 1, contents);
    begin = end + 1;
    contents.complete_bytes = begin;
  }
  if (contents.complete_bytes == 0)
    throw Error(Cause::store_corrupt, fmt::format("{}: the header of the run is missing", file.string()),
                "delete the folder and run again: it holds no record");
  return contents;
}

std::vector<Record> read_records(const fs::path& path, std::vector<std::string>* notes) {
  RunContents contents = read_run(path);
  if (notes) notes->insert(notes->end(), contents.notes.begin(), contents.notes.end());
  return std::move(contents.records);
}

}  // namespace amdahl
