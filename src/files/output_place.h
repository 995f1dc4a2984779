// Resolves the name of an output. Only regular files are replaced: symbolic links are followed, character devices and
// pipes are written to directly, folders, block devices and sockets are refused.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "amdahl/error.h"

namespace amdahl {

struct OutputPlace {
  /// file: a regular file, existing or new. stream: a character device or pipe at `path`. descriptor: an open
  /// descriptor of this process (/dev/stdout, /dev/fd/3).
  enum class Kind { file, stream, descriptor, refused };
  Kind kind = Kind::file;
  std::filesystem::path path;  // with all symbolic links resolved
  int descriptor = -1;
  std::optional<mode_t> permissions;  // of an existing file
  std::string reason;                 // why it is refused: "this is a folder"
  std::string remedy;

  bool is_stream() const { return kind == Kind::stream || kind == Kind::descriptor; }
};

OutputPlace output_place(const std::filesystem::path& name);

/// Whether the output can be written now: its folder exists and this process has permission.
Availability writable(const OutputPlace& place);

}  // namespace amdahl
