// Progress on stderr: one updating line on a terminal, otherwise a line every ten seconds.
#pragma once

#include <chrono>
#include <string>

#include "amdahl/study.h"
#include "cli/commands.h"

namespace amdahl::cli {

class TerminalObserver : public Observer {
 public:
  explicit TerminalObserver(bool quiet);
  ~TerminalObserver() override { clear(); }

  void planned(const StudyPlan& plan) override;
  void note(const std::string& line) override;
  void warning(const std::string& line) override;
  void progress(int done, int total, const std::string& what) override;
  bool cancelled() override { return signalled(); }

 private:
  using Clock = std::chrono::steady_clock;
  void clear();

  bool quiet_, terminal_;
  bool line_open_ = false;
  int first_done_ = -1;
  Clock::time_point start_ = Clock::now(), last_ = Clock::now();
};

/// The plan as lines of text.
std::string plan_text(const StudyPlan& plan);

}  // namespace amdahl::cli
