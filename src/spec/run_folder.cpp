#include "spec/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "spec/json_fields.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

FileDescriptor open_records(const fs::path& path, int flags) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | flags, 0666));
  if (file.get() < 0) {
    if (errno == EEXIST)
      throw Error(Cause::usage, fmt::format("{} already holds a run", path.parent_path().string()),
                  "another folder, or --resume to go on with that run");
    throw_write_error(path, "open for writing", errno);
  }
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw Error(Cause::usage, fmt::format("{} is being written by another amdahl", path.string()),
                "wait for it, or another folder");
  return file;
}

// Names every difference: one option often changes several values, and only one of them is what the user typed.
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
                "the same options as before, or a new folder");
}

}  // namespace

RunFolder RunFolder::create(const fs::path& path, const RunHeader& header) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw_write_error(path, "create the folder", error.value());
  RunFolder folder(path, open_records(path / kRecordsFile, O_CREAT | O_EXCL));
  const json line{{"type", "run"}, {"version", kSchemaVersion}, {"kind", header.kind}, {"config", header.config}};
  try {
    folder.append_lines(dump(line, -1) + "\n");
  } catch (...) {
    ::unlink((path / kRecordsFile).c_str());  // an empty file would make the next attempt look like an earlier run
    throw;
  }
  sync_folder(path);
  return folder;
}

RunFolder RunFolder::resume(const fs::path& path, const RunHeader& header, RunContents* earlier) {
  RunFolder folder(path, open_records(path / kRecordsFile, 0));
  RunContents contents = read_run(path);
  require_same(contents.header, header, path);
  if (::ftruncate(folder.file_.get(), static_cast<off_t>(contents.complete_bytes)) != 0 ||
      ::fsync(folder.file_.get()) != 0)
    throw_write_error(path / kRecordsFile, "cut off the truncated last line", errno);
  folder.size_ = contents.complete_bytes;
  folder.provenance_ = contents.provenance;
  if (earlier) *earlier = std::move(contents);
  return folder;
}

void RunFolder::append(const Record& record) {
  std::string id, lines;
  for (const auto& [known_id, known] : provenance_)
    if (known == record.provenance) id = known_id;
  if (id.empty()) {
    id = fmt::format("p{}", provenance_.size() + 1);
    json line = provenance_json(record.provenance);
    line["type"] = "provenance";
    line["id"] = id;
    lines = dump(line, -1) + "\n";
  }
  json line = record_json(record);
  line["type"] = "record";
  line["provenance"] = id;
  lines += dump(line, -1) + "\n";
  append_lines(lines);
  provenance_.emplace(id, record.provenance);
}

void RunFolder::append_lines(const std::string& lines) {
  int failed = write_all(file_.get(), lines);
  if (failed == 0 && ::fsync(file_.get()) != 0) failed = errno;
  if (failed != 0) {
    // Take the part that was written away again; should that fail too, readers still tolerate a truncated last line.
    if (::ftruncate(file_.get(), static_cast<off_t>(size_)) == 0) ::fsync(file_.get());
    throw_write_error(path_ / kRecordsFile, "append a record", failed);
  }
  size_ += lines.size();
}

void RunFolder::write_text(const std::string& file_name, std::string_view content) const {
  write_atomic(path_ / file_name, content);
}

}  // namespace amdahl
