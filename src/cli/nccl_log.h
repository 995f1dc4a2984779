// NCCL says what it chose in its log.
#pragma once

#include <string>

namespace amdahl::cli {

/// Has NCCL write its log into a file, which goes away with the object. NCCL reads its variables when it is opened: to
/// be made before.
class NcclLog {
 public:
  NcclLog();
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;
  /// Empty where no file can be made.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace amdahl::cli
