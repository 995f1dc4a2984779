// Progress on stderr: one updating line on a terminal, otherwise a line every few seconds, between pieces of work too.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "amdahl/study.h"
#include "cli/commands.h"

namespace amdahl::cli {

/// Until the first text on stdout or its own end.
class TerminalObserver : public Observer {
 public:
  explicit TerminalObserver(bool quiet);
  ~TerminalObserver() override;
  TerminalObserver(const TerminalObserver&) = delete;
  TerminalObserver& operator=(const TerminalObserver&) = delete;

  void planned(const StudyPlan& plan) override;
  void note(const std::string& line) override;
  void warning(const std::string& line) override;
  void progress(int done, int total, const std::string& what) override;
  bool cancelled() override { return signalled(); }

 private:
  using Clock = std::chrono::steady_clock;
  void repeat();
  void print();
  std::string line() const;

  const bool quiet_, terminal_;
  std::mutex mutex_;  // of all below
  std::condition_variable ended_;
  bool is_ended_ = false;
  int first_done_ = -1, done_ = 0, total_ = 0;
  std::string what_;
  Clock::time_point start_ = Clock::now(), first_ = start_, changed_ = start_, printed_ = start_;
  std::thread timer_;
};

/// The plan as lines of text.
std::string plan_text(const StudyPlan& plan);

}  // namespace amdahl::cli
