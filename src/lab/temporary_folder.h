#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace amdahl {

/// A folder that is deleted with its object. Its parent is TMPDIR of `environment`.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::map<std::string, std::string>& environment);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace amdahl
