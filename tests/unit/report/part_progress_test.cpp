#include "verbs/part_progress.h"
#include "amdahl/study.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace amdahl {
namespace {

struct Seen : Observer {
  void note(const std::string& line) override { lines.push_back(line); }
  void warning(const std::string& line) override { lines.push_back("! " + line); }
  void progress(int done, int total, const std::string& what) override {
    lines.push_back(fmt::format("{}/{} {}", done, total, what));
  }
  std::vector<std::string> lines;
};

TEST(PartProgress, IsAShareOfTheWhole) {
  Seen seen;
  PartProgress part(seen, "links", {20, 30, 1});
  part.progress(0, 10, "a");
  part.progress(5, 10, "b");
  part.progress(10, 10, "c");
  part.note("slow");
  part.warning("hot");
  EXPECT_EQ(seen.lines, (std::vector<std::string>{"20/100 links", "20/100 links: a", "35/100 links: b",
                                                  "50/100 links: c", "links: slow", "! links: hot"}));
}

TEST(PartProgress, ThePlanOfAPartIsNotShown) {
  struct Planned : Observer {
    void planned(const StudyPlan&) override { shown = true; }
    bool shown = false;
  } seen;
  PartProgress(seen, "study", {0, 10, 1}).planned({});
  EXPECT_FALSE(seen.shown);
}

TEST(PartProgress, RoundsThatCountFromOneAgainGoOn) {
  Seen seen;
  PartProgress part(seen, "c", {0, 40, 2});
  for (const int done : {0, 1, 2, 0, 1, 2, 0}) part.progress(done, 2, "x");
  EXPECT_EQ(seen.lines, (std::vector<std::string>{"0/100 c", "0/100 c: x", "10/100 c: x", "20/100 c: x", "20/100 c: x",
                                                  "30/100 c: x", "40/100 c: x", "40/100 c: x"}));
}

TEST(PartProgress, AQuarantinedPairIsNamed) {
  MachineSpec machine;
  EXPECT_EQ(unsafe_pair(machine), "");
  machine.links.resize(2);
  EXPECT_EQ(unsafe_pair(machine), "");
  machine.links[1].source = 0, machine.links[1].destination = 1;
  machine.links[1].quarantine = "3 of 100 blocks were corrupt";
  EXPECT_NE(unsafe_pair(machine).find("device 0 to device 1 is quarantined: 3 of 100 blocks were corrupt"),
            std::string::npos);
}

}  // namespace
}  // namespace amdahl
