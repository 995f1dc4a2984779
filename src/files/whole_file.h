// File I/O that survives a crash: writes are atomic, and on disk when the call returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

/// Owns a file descriptor and closes it.
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

/// Opens a file for reading; Error{cause} when it cannot be opened or is a folder.
FileDescriptor open_file(const std::filesystem::path& path, Cause cause);

/// Upper limits of bytes read from a file, per format: a parsed document takes several times as much memory.
inline constexpr size_t kMostTableBytes = size_t{1} << 20;      // a price table
inline constexpr size_t kMostDocumentBytes = size_t{64} << 20;  // a JSON document
inline constexpr size_t kMostRunBytes = size_t{1} << 30;        // records.jsonl
inline constexpr size_t kMostDataBytes = SIZE_MAX;              // data files: limited by memory only
/// Upper limits for pipes and devices, which may never end.
inline constexpr size_t kMostPipeBytes = size_t{512} << 20, kMostDeviceBytes = size_t{64} << 20;

/// Reads a whole file, or a pipe to its end. Error{cause} when it cannot be read or is longer than `most_bytes`,
/// Error{out_of_memory} for a regular file that is larger than the memory of this machine.
std::string read_file(const std::filesystem::path& path, Cause cause, size_t most_bytes = kMostDocumentBytes);
/// Like read_file, for text that may be gzip-compressed.
std::string read_text_file(const std::filesystem::path& path, Cause cause, size_t most_bytes = kMostDocumentBytes);
/// The name without the suffix ".gz".
std::filesystem::path unpacked_name(const std::filesystem::path& path);
/// Whether the name ends in ".json" or ".json.gz".
inline bool is_json_name(const std::filesystem::path& path) { return unpacked_name(path).extension() == ".json"; }
/// Like read_file, for an open file.
std::string read_open_file(const FileDescriptor& file, const std::filesystem::path& path, Cause cause,
                           size_t most_bytes);
/// Error{out_of_memory} when `bytes` exceed the memory of this machine; `what` names what needs them.
void require_memory(double bytes, const std::string& what, const std::string& remedy);

/// The name of a temporary file is that of the final one, this and random letters.
inline constexpr const char* kTemporaryMark = ".tmp";

/// Writes all pieces in order to `path` through a temporary file: write, fsync, rename, fsync of the folder. Readers
/// see either the old or the new content. Symbolic links and permissions are kept; a character device, a pipe and
/// /dev/stdout are written to directly (output_place.h). Throws Error{disk_full} when the disk or quota is full,
/// Error{usage} when the path cannot be written.
void write_atomic(const std::filesystem::path& path, const std::vector<std::string_view>& pieces);
inline void write_atomic(const std::filesystem::path& path, std::string_view content) {
  write_atomic(path, std::vector{content});
}
/// Like above for generated content: `next` returns one piece per call, and nullopt at the end.
using NextPiece = std::function<std::optional<std::string_view>()>;
void write_atomic(const std::filesystem::path& path, const NextPiece& next);

/// Writes all of `content` to a descriptor and handles EINTR and short writes; returns 0 or an errno.
int write_all(int fd, std::string_view content);

/// The error of a failed read or open: of the machine for EMFILE, ENFILE, ENOMEM and EIO, else Error{cause}.
Error read_error(const std::filesystem::path& path, Cause cause, int error_number);
/// The error of a failed write or open: as above, Error{disk_full} for ENOSPC, EDQUOT and EFBIG,
/// else Error{usage}.
Error write_error(const std::filesystem::path& path, std::string_view action, int error_number);
[[noreturn]] void throw_write_error(const std::filesystem::path& path, std::string_view action, int error_number);

/// fsync of a folder, so that a new or renamed file in it survives a crash.
void sync_folder(const std::filesystem::path& folder);

}  // namespace amdahl
