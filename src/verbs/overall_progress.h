// One progress count over a verb with several parts, each of which counts from 1.
#pragma once

#include <string>

#include "amdahl/study.h"

namespace amdahl {

class OverallProgress : public Observer {
 public:
  /// `total`: pieces of all parts. Reports progress 0 at once, so that an estimate of the remaining time starts here.
  OverallProgress(Observer& to, int total, const std::string& first) : to_(to), total_(total) {
    to_.progress(0, total_, first);
  }

  /// Ends a part that had `pieces` pieces.
  void part_ended(int pieces) { before_ += pieces; }

  void planned(const StudyPlan& plan) override { to_.planned(plan); }
  void note(const std::string& line) override { to_.note(line); }
  void warning(const std::string& line) override { to_.warning(line); }
  void progress(int done, int, const std::string& what) override { to_.progress(before_ + done, total_, what); }
  bool cancelled() override { return to_.cancelled(); }

 private:
  Observer& to_;
  int before_ = 0;
  const int total_;
};

}  // namespace amdahl
