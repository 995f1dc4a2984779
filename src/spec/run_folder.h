// A run on disk: records.jsonl, appended and fsynced as each Record completes, beside summary.json, report.md,
// plan.json.
//
// records.jsonl, one JSON object a line:
//   {"type":"run","version":1,"kind":"study","config":{...}}        first line
//   {"type":"provenance","id":"p1",...}                              before the first record that refers to it
//   {"type":"record","provenance":"p1","kind":"study-run",...}
//   {"type":"end","records":N}                                      once the run is complete
// Every line has a chain member (spec/line_chain.h). A line without its newline was being written when the run died; it
// is the only kind of damage that is tolerated. Lines of version 0.1.0 and before have no chain, and are not verified.
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
  std::map<std::string, std::string> config;  // what must be the same to resume
};

struct RunContents {
  RunHeader header;
  std::vector<Record> records;     // each with its whole provenance
  std::vector<std::string> notes;  // a truncated last line, lines of an unknown type

  std::map<std::string, Provenance> provenance;  // by id, as in the file
  uint64_t complete_bytes = 0;                   // length without a truncated last line
  bool chained = false;                          // its lines are verified
  bool ended = false;                            // the last line says that the run is complete
  LineChain chain;                               // behind the last line
};

/// What to do about a run folder of this kind that is not whole: only a study can be gone on with.
std::string unfinished_remedy(std::string_view kind);

/// Marks the run of a folder that other processes have written as complete, see RunFolder::end.
void end_run(const std::filesystem::path& path);

/// Reads a run folder, or a records.jsonl itself. Throws Error{usage} when there is none, Error{store_corrupt} naming
/// file and line, Error{version_refused}.
RunContents read_run(const std::filesystem::path& path);
/// Of the text of `file`, which errors name.
RunContents run_from_text(std::string_view text, const std::filesystem::path& file);
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
  /// stay. Error{usage} once the folder has been deleted or moved.
  void append(const Record& record);
  /// The run is complete: a reader can tell that nothing is missing at the end. Records may still follow.
  void end();
  /// Atomic write of another file of the run ("summary.json", "report.md", "plan.json").
  void write_text(const std::string& file_name, std::string_view content) const;

  const std::filesystem::path& path() const { return path_; }

 private:
  RunFolder(std::filesystem::path path, FileDescriptor file, std::string kind)
      : path_(std::move(path)), file_(std::move(file)), kind_(std::move(kind)) {}
  void require_in_place() const;
  /// One write of all of them, each with its chain member; the chain goes on only if they are on disk.
  void append_lines(const std::vector<std::string>& lines);

  std::filesystem::path path_;
  FileDescriptor file_;
  std::string kind_;
  uint64_t size_ = 0;                             // of whole lines
  std::map<std::string, Provenance> provenance_;  // by id
  LineChain chain_;
  bool chained_ = true;  // false: of an older version, which stays as it is
  int64_t num_records_ = 0;
  bool ended_ = false;
};

/// What to do about a line that cannot be used.
inline constexpr const char* kDamagedLineRemedy =
    "a copy of the file, or without this line: the other records stay readable";

inline constexpr const char* kRecordsFile = "records.jsonl";
/// A finished run may be kept compressed (`gzip RUN/records.jsonl`): it is read as it was, and takes no more records.
inline constexpr const char* kPackedRecordsFile = "records.jsonl.gz";
/// The file of a run folder that is there; records.jsonl where none is.
std::filesystem::path records_file(const std::filesystem::path& folder);

}  // namespace amdahl
