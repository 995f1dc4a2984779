// Captures NCCL's log, which contains its choices.
#pragma once

#include <string>

namespace amdahl::cli {

/// Makes NCCL log to a temporary file, which is deleted with the object. Create it before NCCL is opened: NCCL reads
/// its variables only then.
class NcclLog {
 public:
  NcclLog();
  ~NcclLog();
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;
  /// Empty when no file could be created.
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace amdahl::cli
