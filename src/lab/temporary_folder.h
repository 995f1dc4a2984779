#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace amdahl {

/// A folder that goes with its object. `environment`: TMPDIR says where.
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
