#include <fmt/format.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

/// NCCL says what it chose in its log, to a file that goes away again. NCCL reads its variables when it is opened.
class NcclLog {
 public:
  NcclLog() {
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
  ~NcclLog() {
    if (!path_.empty()) unlink(path_.c_str());
  }
  NcclLog(const NcclLog&) = delete;
  NcclLog& operator=(const NcclLog&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

int doctor_command(DoctorArgs args) {
  args.config.environment = process_environment();  // the user's, without the log's variables
  const NcclLog log;
  args.config.nccl_log = log.path();
  TerminalObserver observer(args.talk.quiet);
  const DoctorOutcome outcome = run_doctor(args.config, observer);
  fmt::print("{}{}", args.talk.json ? outcome.json : outcome.text, args.talk.json ? "\n" : "");
  if (!args.machine.empty()) save_text(args.machine, outcome.machine_json + "\n");
  if (!outcome.run_dir.empty()) fmt::print(args.talk.json ? stderr : stdout, "run: {}\n", outcome.run_dir);
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "this machine has faults or warnings", "the lines above say how to mend each");
}

}  // namespace amdahl::cli
