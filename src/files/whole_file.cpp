#include "files/whole_file.h"

#include "amdahl/error.h"
#include "files/gzip.h"
#include "files/output_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <random>
#include <utility>

namespace amdahl {

namespace fs = std::filesystem;

FileDescriptor& FileDescriptor::operator=(FileDescriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

int FileDescriptor::release() { return std::exchange(fd_, -1); }

namespace {

/// What an error number says about the machine, whatever was asked of it.
struct MachineFault {
  int error_number;
  Cause cause;
  const char* remedy;
};
constexpr MachineFault kMachineFaults[] = {
    {EMFILE, Cause::environment_missing, "a higher limit of open files, for example ulimit -n 1024"},
    {ENFILE, Cause::environment_missing, "fewer programs: the machine has no more files to open (fs.file-max)"},
    {ENOMEM, Cause::out_of_memory, "more memory"},
    {EIO, Cause::device_error, "another disk: the kernel log says what is wrong with this one"},
};

const MachineFault* machine_fault(int error_number) {
  for (const MachineFault& fault : kMachineFaults)
    if (fault.error_number == error_number) return &fault;
  return nullptr;
}

[[noreturn]] void throw_read_error(const fs::path& path, Cause cause, int error_number) {
  throw read_error(path, cause, error_number);
}

/// Maximum size to read from a file, and the error for larger ones.
struct ReadLimit {
  size_t bytes;
  size_t known_bytes;  // size of a regular file; 0 for others
  const char* what;
  const char* remedy;
};

ReadLimit read_limit(const FileDescriptor& file, size_t most_bytes) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || S_ISREG(status.st_mode))
    return {most_bytes, static_cast<size_t>(status.st_size), "a file of this kind", "the file that was meant"};
  const char* remedy = "a regular file, whose end is known";
  if (S_ISFIFO(status.st_mode)) return {std::min(most_bytes, kMostPipeBytes), 0, "a pipe", remedy};
  return {std::min(most_bytes, kMostDeviceBytes), 0, "a device", remedy};
}

}  // namespace

Error read_error(const fs::path& path, Cause cause, int error_number) {
  const MachineFault* const fault = machine_fault(error_number);
  return Error(fault ? fault->cause : cause,
               fmt::format("{}: cannot be read: {}", path.string(), std::strerror(error_number)),
               fault ? fault->remedy : "a path that exists and that you may read");
}

FileDescriptor open_file(const fs::path& path, Cause cause) {
  // blocks on a FIFO until a writer opens it
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (file.get() < 0 && errno == EINTR)
    throw Error(Cause::interrupted, fmt::format("{}: stopped before anyone wrote into it", path.string()),
                "a writer of the pipe, or a file");
  if (file.get() < 0) throw_read_error(path, cause, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) == 0 && S_ISDIR(status.st_mode)) throw_read_error(path, cause, EISDIR);
  return file;
}

std::string read_file(const fs::path& path, Cause cause, size_t most_bytes) {
  return read_open_file(open_file(path, cause), path, cause, most_bytes);
}

std::string read_open_file(const FileDescriptor& file, const fs::path& path, Cause cause, size_t most_bytes) {
  const ReadLimit limit = read_limit(file, most_bytes);
  const auto refuse = [&] {
    throw Error(cause,
                fmt::format("{}: {} of more than {} is not read", path.string(), limit.what,
                            format_bytes(static_cast<double>(limit.bytes))),
                limit.remedy);
  };
  if (limit.known_bytes > limit.bytes) refuse();
  require_memory(static_cast<double>(limit.known_bytes), path.string(), "a part of it");
  std::string content;
  content.reserve(limit.known_bytes);
  char block[1 << 16];
  for (;;) {
    const ssize_t got = ::read(file.get(), block, sizeof block);
    if (got == 0) return content;
    if (got < 0 && errno != EINTR) throw_read_error(path, cause, errno);
    if (got < 0) continue;
    if (static_cast<size_t>(got) > limit.bytes - content.size()) refuse();
    content.append(block, static_cast<size_t>(got));
  }
}

std::string read_text_file(const fs::path& path, Cause cause, size_t most_bytes) {
  std::string content = read_file(path, cause, most_bytes);
  return is_gzip(content) ? gunzip(content, path.string(), cause, most_bytes) : content;
}

fs::path unpacked_name(const fs::path& path) {
  return path.extension() == ".gz" ? path.parent_path() / path.stem() : path;
}

void require_memory(double bytes, const std::string& what, const std::string& remedy) {
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) * static_cast<double>(::sysconf(_SC_PAGESIZE));
  if (bytes > memory)
    throw Error(
        Cause::out_of_memory,
        fmt::format("{} takes {} of memory, and this machine has {}", what, format_bytes(bytes), format_bytes(memory)),
        remedy);
}

namespace {

std::string write_remedy(int error_number) {
  if (error_number == ENOSPC || error_number == EDQUOT) return "free some space or quota, then run again";
  if (error_number == EFBIG) return "a larger file size limit (ulimit -f), then run again";
  if (error_number == EPIPE) return "a reader that reads to the end";
  return "a path in a folder that you may write";
}

}  // namespace

Error write_error(const fs::path& path, std::string_view action, int error_number) {
  const std::string text = fmt::format("{}: cannot {}: {}", path.string(), action, std::strerror(error_number));
  if (const MachineFault* const fault = machine_fault(error_number)) return Error(fault->cause, text, fault->remedy);
  const bool full = error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
  return Error(full ? Cause::disk_full : Cause::usage, text, write_remedy(error_number));
}

void throw_write_error(const fs::path& path, std::string_view action, int error_number) {
  throw write_error(path, action, error_number);
}

int write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t wrote = ::write(fd, content.data(), content.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    if (wrote == 0) return EIO;
    content.remove_prefix(static_cast<size_t>(wrote));
  }
  return 0;
}

void sync_folder(const fs::path& folder) {
  const fs::path path = folder.empty() ? fs::path(".") : folder;
  const FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.get() < 0) throw_write_error(path, "open the folder", errno);
  // Some network file systems cannot sync a folder (EINVAL); the rename itself is then as durable as they make it.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) throw_write_error(path, "sync the folder", errno);
}

namespace {

std::string random_letters() {
  std::random_device random;
  return fmt::format("{:08x}", random());
}

/// A new file beside the final one. Deletes itself at the end of its scope, unless it was renamed. Nobody can have put
/// a link or a file in its place: its name is not known before, and it is only made where nothing is.
class TemporaryFile {
 public:
  explicit TemporaryFile(const fs::path& final_path) {
    constexpr int kMostTries = 100;
    for (int tries = 0; tries < kMostTries; ++tries) {
      path_ = final_path;
      path_ += kTemporaryMark + random_letters();
      constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
      file_ = FileDescriptor(::open(path_.c_str(), kNew, 0666));
      if (file_.get() >= 0 || errno != EEXIST) break;
    }
    file_was_made_ = file_.get() >= 0;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!renamed_ && file_was_made_) ::unlink(path_.c_str());
  }

  int fd() const { return file_.get(); }
  /// Syncs the file and renames it to `target`; returns 0 or an errno.
  int become(const fs::path& target) {
    if (::fsync(file_.get()) != 0 || ::close(file_.release()) != 0) return errno;
    renamed_ = ::rename(path_.c_str(), target.c_str()) == 0;
    return renamed_ ? 0 : errno;
  }

 private:
  fs::path path_;
  FileDescriptor file_;
  bool file_was_made_ = false, renamed_ = false;
};

/// Write, fsync, rename, fsync of the folder.
void replace_file(const fs::path& path, const OutputPlace& place, const NextPiece& next) {
  TemporaryFile file(place.path);
  int failed = file.fd() < 0 ? errno : 0;
  if (failed == 0 && place.permissions && ::fchmod(file.fd(), *place.permissions) != 0) failed = errno;
  while (failed == 0) {
    const std::optional<std::string_view> piece = next();
    if (!piece) break;
    failed = write_all(file.fd(), *piece);
  }
  if (failed == 0) failed = file.become(place.path);
  if (failed != 0) throw_write_error(path, "write", failed);
  sync_folder(place.path.parent_path());
}

/// Writes to a character device, pipe or descriptor of this process, which cannot be replaced.
void write_stream(const fs::path& path, const OutputPlace& place, const NextPiece& next) {
  FileDescriptor opened;
  int fd = place.descriptor;
  if (fd < 0) {
    // blocks on a FIFO until a reader opens it
    opened = FileDescriptor(::open(place.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    fd = opened.get();
    if (fd < 0 && errno == EINTR)
      throw Error(Cause::interrupted, fmt::format("{}: stopped before anyone read it", path.string()),
                  "a reader of the pipe, or a file");
    if (fd < 0) throw_write_error(path, "write", errno);
  }
  if (fd == STDOUT_FILENO) std::fflush(stdout);  // keep the order with earlier prints
  for (auto piece = next(); piece; piece = next())
    if (const int failed = write_all(fd, *piece); failed != 0) throw_write_error(path, "write", failed);
}

}  // namespace

void write_atomic(const fs::path& path, const NextPiece& next) {
  const OutputPlace place = output_place(path);
  switch (place.kind) {
    case OutputPlace::Kind::refused:
      throw Error(Cause::usage, fmt::format("{}: {}", path.string(), place.reason), place.remedy);
    case OutputPlace::Kind::file:
      return replace_file(path, place, next);
    case OutputPlace::Kind::stream:
    case OutputPlace::Kind::descriptor:
      return write_stream(path, place, next);
  }
}

void write_atomic(const fs::path& path, const std::vector<std::string_view>& pieces) {
  size_t at = 0;
  write_atomic(path, [&]() -> std::optional<std::string_view> {
    if (at == pieces.size()) return std::nullopt;
    return pieces[at++];
  });
}

}  // namespace amdahl
