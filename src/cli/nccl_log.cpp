#include "cli/nccl_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "cli/commands.h"

namespace amdahl::cli {

NcclLog::NcclLog() {
  signalled();  // from here on a signal ends the verb, not the program, so that the file is deleted
  const char* folder = std::getenv("TMPDIR");
  path_ = fmt::format("{}/amdahl-nccl-XXXXXX", folder && *folder ? folder : "/tmp");
  const int file = mkstemp(path_.data());
  if (file < 0) {
    path_.clear();
    return;
  }
  close(file);
  setenv("NCCL_DEBUG", "INFO", 1);
  setenv("NCCL_DEBUG_SUBSYS", "INIT", 1);
  setenv("NCCL_DEBUG_FILE", path_.c_str(), 1);
}

NcclLog::~NcclLog() {
  if (!path_.empty()) unlink(path_.c_str());
}

}  // namespace amdahl::cli
