#include "files/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
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

[[noreturn]] void throw_read_error(const fs::path& path, Cause cause, int error_number) {
  throw Error(cause, fmt::format("{}: cannot be read: {}", path.string(), std::strerror(error_number)),
              "a path that exists and that you may read");
}

}  // namespace

FileDescriptor open_file(const fs::path& path, Cause cause) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw_read_error(path, cause, errno);
  struct stat status {};
  if (::fstat(file.get(), &status) == 0 && S_ISDIR(status.st_mode)) throw_read_error(path, cause, EISDIR);
  return file;
}

std::string read_file(const fs::path& path, Cause cause) {
  const FileDescriptor file = open_file(path, cause);
  std::string content;
  struct stat status {};
  if (::fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode))
    content.reserve(static_cast<size_t>(status.st_size));
  char block[1 << 16];
  for (;;) {
    const ssize_t got = ::read(file.get(), block, sizeof block);
    if (got == 0) return content;
    if (got > 0) content.append(block, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) throw_read_error(path, cause, errno);
  }
}

void throw_write_error(const fs::path& path, std::string_view action, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
  throw Error(full ? Cause::disk_full : Cause::usage,
              fmt::format("{}: cannot {}: {}", path.string(), action, std::strerror(error_number)),
              full ? "free some space or quota, then run again; a run folder is kept, and --resume goes on with it"
                   : "a path in a folder that you may write");
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

void write_atomic(const fs::path& path, const std::vector<std::string_view>& pieces) {
  fs::path temporary = path;
  temporary += fmt::format(".tmp{}", ::getpid());
  FileDescriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) throw_write_error(path, "write", errno);
  int failed = 0;
  for (const std::string_view piece : pieces)
    if (failed == 0) failed = write_all(file.get(), piece);
  if (failed == 0 && ::fsync(file.get()) != 0) failed = errno;
  if (failed == 0 && ::close(file.release()) != 0) failed = errno;
  if (failed == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) failed = errno;
  if (failed != 0) {
    ::unlink(temporary.c_str());
    throw_write_error(path, "write", failed);
  }
  sync_folder(path.parent_path());
}

}  // namespace amdahl
