// A run on disk: records.jsonl, appended and fsynced as each Record completes, beside summary.json, report.md,
// plan.json.
//
// records.jsonl, one JSON object a line:
//   {"type":"run","version":1,"kind":"study","config":{...}}        first line
//   {"type":"provenance","id":"p1",...}                              before the first record that refers to it
//   {"type":"record","provenance":"p1","kind":"study-run",...}
// A line without its newline was being written when the run died; it is the only kind of damage that is tolerated.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/record.h"
#include "files/whole_file.h"

namespace amdahl {

struct RunHeader {
  std::string kind;                           // "study", "train", "collectives", "arena"
  std::map<std::string, std::string> config;  // what must be the same for --resume
};

struct RunContents {
  RunHeader header;
  std::vector<Record> records;     // each with its whole provenance
  std::vector<std::string> notes;  // a truncated last line, lines of an unknown type

  std::map<std::string, Provenance> provenance;  // by id, as in the file
  uint64_t complete_bytes = 0;                   // length without a truncated last line
};

/// Reads a run folder, or a records.jsonl itself. Throws Error{usage} when there is none, Error{store_corrupt} naming
/// file and line, Error{version_refused}.
RunContents read_run(const std::filesystem::path& path);
/// Its records only; notes are appended to `notes` when given.
std::vector<Record> read_records(const std::filesystem::path& path, std::vector<std::string>* notes = nullptr);

/// The writer. One per folder at a time (a lock on records.jsonl refuses a second). Not thread-safe: one thread
/// appends.
class RunFolder {
 public:
  /// Creates the folder and its parents. Throws Error{usage} when the path cannot be written, or already holds a run.
  static RunFolder create(const std::filesystem::path& path, const RunHeader& header);
  /// Opens an earlier run of the same kind and config; Error{usage} naming the first difference otherwise. A truncated
  /// last line is cut off, and `earlier` gets what was read.
  static RunFolder resume(const std::filesystem::path& path, const RunHeader& header, RunContents* earlier = nullptr);

  /// On disk when it returns. On Error{disk_full} the file ends with the last whole line before, and earlier lines
  /// stay.
  void append(const Record& record);
  /// Atomic write of another file of the run ("summary.json", "report.md", "plan.json").
  void write_text(const std::string& file_name, std::string_view content) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  RunFolder(std::filesystem::path path, FileDescriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  void append_lines(const std::string& lines);

  std::filesystem::path path_;
  FileDescriptor file_;
  uint64_t size_ = 0;                             // of whole lines
  std::map<std::string, Provenance> provenance_;  // by id
};

/// What to do about a line that cannot be used.
inline constexpr const char* kDamagedLineRemedy =
    "a copy of the file, or without this line: the other records stay readable";

inline constexpr const char* kRecordsFile = "records.jsonl";

}  // namespace amdahl
