// The files of a training's checkpoints.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include "train/checkpoint.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kEnding = ".safetensors",
                           kTemporary = ".safetensors.tmp";  // see kTemporaryMark
constexpr size_t kKept = 2;

std::string checkpoint_name(int64_t step) { return fmt::format("{}{:09}{}", kPrefix, step, kEnding); }

/// The step of a file's name with that ending; negative for other names. `exact`: nothing follows the ending.
int64_t step_in_name(const std::string& name, std::string_view ending, bool exact) {
  const size_t at = name.find(ending);
  if (!name.starts_with(kPrefix) || at == std::string::npos || (exact && at + ending.size() != name.size())) return -1;
  int64_t step = -1;
  const char *begin = name.data() + kPrefix.size(), *end = name.data() + at;
  return std::from_chars(begin, end, step).ptr == end ? step : -1;
}

/// The paths of a folder; none when it does not exist.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) files.push_back(entry.path());
  if (error && error != std::errc::no_such_file_or_directory) throw read_error(folder, Cause::usage, error.value());
  return files;
}

}  // namespace

std::vector<CheckpointFolder::Entry> CheckpointFolder::newest_first() const {
  std::vector<Entry> entries;
  std::error_code ignored;
  for (const fs::path& file : files_in(path_))
    if (const int64_t step = step_in_name(file.filename().string(), kEnding, true);
        step >= 0 && fs::is_regular_file(file, ignored))  // a pipe would be waited for
      entries.push_back({step, file});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.step > b.step; });
  return entries;
}

void CheckpointFolder::lock() {
  if (lock_.get() >= 0) return;
  FileDescriptor folder(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0 && errno == ENOENT) return;
  if (folder.get() < 0) throw_write_error(path_, "open the folder", errno);
  // Some network file systems have no locks.
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw Error(Cause::usage, fmt::format("another training writes its checkpoints into {}", path_.string()),
                "wait for its end, or another `checkpoint_dir`");
  lock_ = std::move(folder);
}

void CheckpointFolder::save(const Checkpoint& checkpoint) {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) throw_write_error(path_, "create the folder", error.value());
  lock();
  std::vector<std::string> storage;
  const int64_t step = checkpoint.point.step;
  write_atomic(path_ / checkpoint_name(step), checkpoint_pieces(checkpoint, storage));
  std::error_code ignored;
  for (const Entry& entry : newest_first())  // later ones are of a training that was resumed from before them
    if (entry.step > step) fs::remove(entry.file, ignored);
  remove_leftovers(step);
}

void CheckpointFolder::remove_leftovers(int64_t step) const {
  size_t kept = 0;
  std::error_code ignored;  // what cannot be removed takes space, and nothing else
  for (const Entry& entry : newest_first())
    if (entry.step <= step && ++kept > kKept) fs::remove(entry.file, ignored);
  for (const fs::path& file : files_in(path_))
    if (step_in_name(file.filename().string(), kTemporary, false) >= 0) fs::remove(file, ignored);
}

std::optional<CheckpointFolder::Loaded> CheckpointFolder::load(
    const std::function<void(const std::string&)>& warn) const {
  const std::vector<Entry> entries = newest_first();
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string file = entries[i].file.string();
    try {
      Checkpoint checkpoint = parse_checkpoint(read_file(file, Cause::data_corrupt, kMostDataBytes), file);
      if (checkpoint.point.step != entries[i].step)
        throw Error(Cause::data_corrupt, fmt::format("{}: it is of step {}", file, checkpoint.point.step),
                    "the file under its own name");
      return Loaded{entries[i].file, std::move(checkpoint)};
    } catch (const Error& error) {
      if (error.cause() != Cause::data_corrupt) throw;
      if (i + 1 == entries.size())
        throw Error(Cause::data_corrupt,
                    entries.size() == 1 ? error.what() : fmt::format("{}; so is every later one", error.what()),
                    "a copy of a checkpoint, or the training anew into another `checkpoint_dir`");
      warn(fmt::format("{}; the checkpoint of step {} is used", error.what(), entries[i + 1].step));
    }
  }
  return std::nullopt;
}

}  // namespace amdahl
