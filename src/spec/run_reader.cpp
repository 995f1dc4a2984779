// Reading records.jsonl.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "amdahl/error.h"
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
  contents.ended = type == "end";
  if (contents.ended) return;
  if (type == "provenance") {
    contents.provenance[fields.text("id")] = read_provenance(fields);
  } else if (type == "record") {
    const auto found = contents.provenance.find(fields.text("provenance"));
    if (found == contents.provenance.end())
      fields.fail("provenance", fmt::format("names \"{}\", which no earlier line defines", fields.text("provenance")));
    Record record = read_record(fields, found->second);
    record.source = origin;
    contents.records.push_back(std::move(record));
  } else {
    contents.notes.push_back(
        fmt::format("{}: a line of type \"{}\" was left out; a newer amdahl wrote it", origin, printable(type, 80)));
  }
}

/// A file that the user names as a run and that is something else is no damaged run.
void require_run(std::string_view first_line, const fs::path& file) {
  if (unpacked_name(file).filename() == kRecordsFile) return;
  json header;
  try {
    if (first_line.starts_with('{')) header = parse_document(first_line, "", Cause::usage);
  } catch (const Error&) {
  }
  if (header.is_object() && header.contains("type")) return;
  throw Error(Cause::usage,
              fmt::format("{} is no run of amdahl: its first line is not the header of one", file.string()),
              fmt::format("a run folder, or the {} in it", kRecordsFile));
}

/// The lines before the broken one are verified and can be kept.
Error broken_chain(const fs::path& file, size_t number) {
  const std::string what = number == 1
                               ? "the header was changed"
                               : "changed, missing, doubled or of another run: it does not follow from the line before";
  const std::string remedy = number <= 2 ? "a copy of the file"
                                         : fmt::format(
                                               "a copy of the file; its first {} lines are as they were written "
                                               "(head -n {})",
                                               number - 1, number - 1);
  return Error(Cause::store_corrupt, fmt::format("{}:{}: {}", file.string(), number, what), remedy);
}

}  // namespace

fs::path records_file(const fs::path& folder) {
  std::error_code error;
  const fs::path plain = folder / kRecordsFile, packed = folder / kPackedRecordsFile;
  return !fs::exists(plain, error) && fs::exists(packed, error) ? packed : plain;
}

RunContents read_run(const fs::path& path) {
  std::error_code error;
  const fs::path file = fs::is_directory(path, error) ? records_file(path) : path;
  if (!fs::exists(file, error))
    throw Error(Cause::usage, fmt::format("{}: no run is stored there", path.string()),
                fmt::format("a folder that holds a {}", kRecordsFile));
  return run_from_text(read_text_file(file, Cause::store_corrupt, kMostRunBytes), file);
}

RunContents run_from_text(std::string_view text, const fs::path& file) {
  require_run(text.substr(0, text.find('\n')), file);
  RunContents contents;
  size_t provenance_bytes = 0;
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
    const std::string_view line = text.substr(begin, end - begin);
    if (number == 1) contents.chained = is_chained(line);
    const std::string origin = fmt::format("{}:{}", file.string(), number);
    // before the chain is checked: a newer version may use another chain
    if (number == 1) read_line(line, origin, true, contents);
    if (contents.chained && !contents.chain.accept(line)) throw broken_chain(file, number);
    if (number > 1) read_line(line, origin, false, contents);
    // Each record holds a copy of its provenance, which the file contains once.
    if (!contents.records.empty()) provenance_bytes += num_bytes(contents.records.back().provenance);
    require_provenance(provenance_bytes, origin, Cause::store_corrupt);
    begin = end + 1;
    contents.complete_bytes = begin;
  }
  const bool truncated = contents.complete_bytes < text.size();
  if (contents.chained && !contents.ended && !truncated)
    contents.notes.push_back(fmt::format(
        "{}: has no line that ends the run: it was interrupted, is still running, or lines at its end are missing",
        file.string()));
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
