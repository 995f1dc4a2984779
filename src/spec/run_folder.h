// A run on disk: records.jsonl, appended and fsynced after each Record, and summary.json, report.md and plan.json.
//
// records.jsonl, one JSON object per line:
//   {"type":"run","version":1,"kind":"study","config":{...}}        first line
//   {"type":"provenance","id":"p1",...}                              before the first record that refers to it
//   {"type":"record","provenance":"p1","kind":"study-run",...}
//   {"type":"end","records":N}                                      once the run is complete
// Every line has a chain member (spec/line_chain.h). A last line without a newline was being written when the run died;
// it is the only damage that is tolerated. Lines of version 0.1.0 and earlier have no chain member and are not
// verified.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/record.h"
#include "files/whole_file.h"
#include "spec/line_chain.h"

namespace amdahl {

struct RunHeader {
  std::string kind;                           // "study", "train", "collectives", "arena"
  std::map<std::string, std::string> config;  // values that must be equal to resume the run
};

struct RunContents {
  RunHeader header;
  std::vector<Record> records;     // each with its complete provenance
  std::vector<std::string> notes;  // a truncated last line, lines of an unknown type

  std::map<std::string, Provenance> provenance;  // by the id used in the file
  uint64_t complete_bytes = 0;                   // file length without a truncated last line
  bool chained = false;                          // the lines have chain members and were verified
  bool ended = false;                            // the last line marks the run as complete
  LineChain chain;                               // state after the last line
};

/// The remedy for an incomplete run folder of this kind: only a study can be resumed.
std::string unfinished_remedy(std::string_view kind);

/// Marks a run folder written by other processes as complete, see RunFolder::end.
void end_run(const std::filesystem::path& path);

/// Reads a run folder, or a records.jsonl file. Throws Error{usage} when there is none, Error{store_corrupt} naming
/// file and line, and Error{version_refused}.
RunContents read_run(const std::filesystem::path& path);
/// Parses `text`; errors name `file`.
RunContents run_from_text(std::string_view text, const std::filesystem::path& file);
/// The records only; notes are appended to `notes` when it is not null.
std::vector<Record> read_records(const std::filesystem::path& path, std::vector<std::string>* notes = nullptr);

/// Writer of a run folder. Not thread-safe: one per thread. A lock on records.jsonl refuses a second writer of the same
/// folder.
class RunFolder {
 public:
  /// Creates the folder and its parents. Error{usage} when the path cannot be written or already holds a run.
  static RunFolder create(const std::filesystem::path& path, const RunHeader& header);
  /// Opens an earlier run of the same kind and config; otherwise Error{usage} naming the first difference. A truncated
  /// last line is removed; `earlier` receives what was read.
  static RunFolder resume(const std::filesystem::path& path, const RunHeader& header, RunContents* earlier = nullptr);

  /// Appends a record; it is on disk when the call returns. After Error{disk_full} the file ends with the last complete
  /// line and earlier lines are intact. Error{usage} once the folder has been deleted or moved.
  void append(const Record& record);
  /// Marks the run as complete, so that a reader can detect missing lines at the end. Records may still follow.
  void end();
  /// Atomic write of another file of the run ("summary.json", "report.md", "plan.json").
  void write_text(const std::string& file_name, std::string_view content) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  RunFolder(std::filesystem::path path, FileDescriptor file, std::string kind)
      : path_(std::move(path)), file_(std::move(file)), kind_(std::move(kind)) {}
  void require_in_place() const;
  /// Writes all lines in one call, each with its chain member. The chain advances only if they are on disk.
  void append_lines(const std::vector<std::string>& lines);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::string kind_;
  uint64_t size_ = 0;                             // bytes of complete lines
  std::map<std::string, Provenance> provenance_;  // id -> provenance
  LineChain chain_;
  bool chained_ = true;  // false: written by an older version, continued without chain members
  int64_t num_records_ = 0;
  bool ended_ = false;
};

/// The remedy for a damaged line.
inline constexpr const char* kDamagedLineRemedy =
    "a copy of the file, or without this line: the other records stay readable";

inline constexpr const char* kRecordsFile = "records.jsonl";
/// A finished run may be compressed (`gzip RUN/records.jsonl`): it can still be read, but not appended to.
inline constexpr const char* kPackedRecordsFile = "records.jsonl.gz";
/// The records file that exists in a run folder; records.jsonl when neither exists.
std::filesystem::path records_file(const std::filesystem::path& folder);

}  // namespace amdahl
