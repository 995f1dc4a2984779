#include "spec/files.h"

#include <fcntl.h>
#include <fmt/format.h>
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

std::string read_file(const fs::path& path, Cause cause) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string content;
  char block[1 << 16];
  while (file.get() >= 0) {
    const ssize_t got = ::read(file.get(), block, sizeof block);
    if (got == 0) return content;
    if (got > 0) content.append(block, static_cast<size_t>(got));
    if (got < 0 && errno != EINTR) break;
  }
  throw Error(cause, fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)),
              "a path that exists and that you may read");
}

void throw_write_error(const fs::path& path, std::string_view action, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT || error_number == EFBIG;
  throw Error(full ? Cause::disk_full : Cause::usage,
              fmt::format("{}: cannot {}: {}", path.string(), action, std::strerror(error_number)),
              full ? "free some space or quota, then run again with --resume; what was written so far is kept"
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

void write_atomic(const fs::path& path, std::string_view content) {
  fs::path temporary = path;
  temporary += fmt::format(".tmp{}", ::getpid());
  FileDescriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.get() < 0) throw_write_error(path, "write", errno);
  int failed = write_all(file.get(), content);
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
