#include "spec/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "spec/failure.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string taken_remedy(std::string_view kind) {
  return fmt::format("`overwrite` to replace it, {}another folder",
                     kind == "study" ? "`resume` to go on with it, or " : "or ");
}

FileDescriptor open_records(const fs::path& path, int flags, std::string_view kind) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0666));
  if (file.get() < 0) {
    if (errno == EEXIST)
      throw Error(Cause::usage, fmt::format("{} already holds a run", path.parent_path().string()), taken_remedy(kind));
    throw_write_error(path, "open for writing", errno);
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw Error(Cause::usage, fmt::format("{} is being written by another amdahl", path.string()),
                "wait for it, or another folder");
  return file;
}

// Lists every difference: one option often changes several values, and the user typed only one of them.
void require_same(const RunHeader& earlier, const RunHeader& now, const fs::path& path) {
  std::vector<std::string> differences;
  const auto differ = [&](const std::string& what, const std::string& old_value, const std::string& new_value) {
    differences.push_back(fmt::format("{} was {} and is now {}", what, old_value, new_value));
  };
  if (earlier.kind != now.kind) differ("the kind of run", earlier.kind, now.kind);
  for (const auto& [key, value] : earlier.config) {
    const auto found = now.config.find(key);
    if (found == now.config.end() || found->second != value)
      differ(key, '"' + value + '"', found == now.config.end() ? "absent" : '"' + found->second + '"');
  }
  for (const auto& [key, value] : now.config)
    if (!earlier.config.contains(key)) differ(key, "absent", '"' + value + '"');
  if (!differences.empty())
    throw Error(Cause::usage, fmt::format("{}: cannot resume: {}", path.string(), fmt::join(differences, "; ")),
                "the same options, host and build as before, or a new folder");
}

}  // namespace

std::string unfinished_remedy(std::string_view kind) {
  return kind == "study" ? "`study resume` with its options to go on with it" : "measure again, into another folder";
}

RunFolder RunFolder::create(const fs::path& path, const RunHeader& header) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw_write_error(path, "create the folder", error.value());
  if (fs::exists(path / kPackedRecordsFile, error))
    throw Error(Cause::usage, fmt::format("{} already holds a run, compressed", path.string()), "another folder");
  RunFolder folder(path, open_records(path / kRecordsFile, O_CREAT | O_EXCL, header.kind), header.kind);
  const json line{{"type", "run"}, {"version", kSchemaVersion}, {"kind", header.kind}, {"config", header.config}};
  try {
    folder.append_lines({dump(line, -1)});
  } catch (...) {
    ::unlink((path / kRecordsFile).c_str());  // otherwise the next attempt would take the empty file for an earlier run
    throw;
  }
  sync_folder(path);
  return folder;
}

RunFolder RunFolder::resume(const fs::path& path, const RunHeader& header, RunContents* earlier) {
  if (records_file(path) != path / kRecordsFile)
    throw Error(Cause::usage, fmt::format("{} is compressed, and takes no more records", path.string()),
                fmt::format("gunzip {}", (path / kPackedRecordsFile).string()));
  RunFolder folder(path, open_records(path / kRecordsFile, 0, header.kind), header.kind);
  RunContents contents = read_run(path);
  require_same(contents.header, header, path);
  remove_failure(path);
  if (::ftruncate(folder.file_.get(), static_cast<off_t>(contents.complete_bytes)) != 0 ||
      ::fsync(folder.file_.get()) != 0)
    throw_write_error(path / kRecordsFile, "cut off the truncated last line", errno);
  folder.size_ = contents.complete_bytes;
  folder.provenance_ = contents.provenance;
  folder.chain_ = contents.chain;
  folder.chained_ = contents.chained;
  folder.num_records_ = static_cast<int64_t>(contents.records.size());
  folder.ended_ = contents.ended;
  if (earlier) *earlier = std::move(contents);
  return folder;
}

void RunFolder::append(const Record& record) {
  std::string id;
  std::vector<std::string> lines;
  for (const auto& [known_id, known] : provenance_)
    if (known == record.provenance) id = known_id;
  if (id.empty()) {
    id = fmt::format("p{}", provenance_.size() + 1);
    json line = provenance_json(record.provenance);
    line["type"] = "provenance";
    line["id"] = id;
    lines.push_back(dump(line, -1));
  }
  json line = record_json(record);
  line["type"] = "record";
  line["provenance"] = id;
  lines.push_back(dump(line, -1));
  append_lines(lines);
  provenance_.emplace(id, record.provenance);
  ++num_records_;
  ended_ = false;
}

void RunFolder::end() {
  if (ended_ || !chained_) return;
  append_lines({dump(json{{"type", "end"}, {"records", num_records_}}, -1)});
  ended_ = true;
}

void end_run(const fs::path& path) {
  const RunHeader header = read_run(path).header;
  RunFolder::resume(path, header).end();
}

/// Without this check, records of a deleted or moved folder would be lost, and the run would report it only at its end.
void RunFolder::require_in_place() const {
  struct stat ours {};
  struct stat there {};
  const fs::path file = path_ / kRecordsFile;
  if (::fstat(file_.get(), &ours) == 0 && ::stat(file.c_str(), &there) == 0 && ours.st_dev == there.st_dev &&
      ours.st_ino == there.st_ino)
    return;
  throw Error(Cause::usage,
              fmt::format("{} was deleted, moved or replaced while this run was writing it", file.string()),
              "run again, and leave the folder where it is until the end");
}

void RunFolder::append_lines(const std::vector<std::string>& given) {
  LineChain chain = chain_;
  std::string lines;
  for (const std::string& line : given) lines += (chained_ ? chain.link(line) : line) + "\n";
  require_in_place();
  int failed = write_all(file_.get(), lines);
  if (failed == 0 && ::fsync(file_.get()) != 0) failed = errno;
  if (failed != 0) {
    // Remove the partially written data; if that fails too, readers still tolerate a truncated last line.
    if (::ftruncate(file_.get(), static_cast<off_t>(size_)) == 0) ::fsync(file_.get());
    const Error error = write_error(path_ / kRecordsFile, "append a record", failed);
    throw Error(error.cause(), fmt::format("{}; the records before it are kept", error.what()),
                fmt::format("{}: {}", error.remedy(), unfinished_remedy(kind_)));
  }
  size_ += lines.size();
  chain_ = chain;
}

void RunFolder::write_text(const std::string& file_name, std::string_view content) const {
  write_atomic(path_ / file_name, content);
}

}  // namespace amdahl
