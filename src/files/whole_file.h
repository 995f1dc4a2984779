// Files that survive a crash: whole or not at all, and on disk when the call returns.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// Closes on scope exit.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return fd_; }
  int release();

 private:
  int fd_;
};

/// Opens a file for reading; Error{cause} when it cannot be, or is a folder.
FileDescriptor open_file(const std::filesystem::path& path, Cause cause);
/// The whole file; Error{cause} when it cannot be read.
std::string read_file(const std::filesystem::path& path, Cause cause);

/// Writes `path`, all pieces one after the other, through a temporary file: write, fsync, rename, fsync of the folder.
/// Readers see the old content or the new one. Throws Error{disk_full} when the disk or quota is full, Error{usage}
/// when the path cannot be written.
void write_atomic(const std::filesystem::path& path, const std::vector<std::string_view>& pieces);
inline void write_atomic(const std::filesystem::path& path, std::string_view content) {
  write_atomic(path, std::vector{content});
}

/// Writes all of `content` to a descriptor, through interruptions and short writes; returns 0 or an errno.
int write_all(int fd, std::string_view content);

/// The error of a failed write or open: Error{disk_full} for ENOSPC, EDQUOT and EFBIG, else Error{usage}.
[[noreturn]] void throw_write_error(const std::filesystem::path& path, std::string_view action, int error_number);

/// fsync of a folder, so that a new or renamed file in it survives a crash.
void sync_folder(const std::filesystem::path& folder);

}  // namespace amdahl
