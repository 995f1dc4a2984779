#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "files/whole_file.h"

namespace amdahl {

/// A folder that is deleted with its object. It is locked while the object lives: the next one in the same place
/// deletes those of processes that were killed.
class TemporaryFolder {
 public:
  /// In TMPDIR of `environment`.
  explicit TemporaryFolder(const std::map<std::string, std::string>& environment);
  explicit TemporaryFolder(const std::filesystem::path& parent);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  FileDescriptor lock_;
};

}  // namespace amdahl
