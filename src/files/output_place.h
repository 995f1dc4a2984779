// What the name of an output stands for. Outputs replace regular files only: symbolic links are followed, character
// devices and pipes are written into, folders, block devices and sockets are refused.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "amdahl/error.h"

namespace amdahl {

struct OutputPlace {
  /// file: a regular file, there already or not yet. stream: a character device or pipe at `path`.
  /// descriptor: one of this process (/dev/stdout, /dev/fd/3).
  enum class Kind { file, stream, descriptor, refused };
  Kind kind = Kind::file;
  std::filesystem::path path;  // behind all symbolic links
  int descriptor = -1;
  std::optional<mode_t> permissions;  // of a file that is there
  std::string reason;                 // of refused: "this is a folder"
  std::string remedy;

  bool is_stream() const { return kind == Kind::stream || kind == Kind::descriptor; }
};

OutputPlace output_place(const std::filesystem::path& name);

/// Whether it can be written as things are: its folder is there, and this process may.
Availability writable(const OutputPlace& place);

}  // namespace amdahl
