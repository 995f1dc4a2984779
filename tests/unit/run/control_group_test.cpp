// The limit of processors of control groups, versions 1 and 2, of a host and of a container.
#include "base/control_group.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace amdahl {
namespace {

namespace fs = std::filesystem;

class ControlGroup : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "amdahl-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    mount_ = name;
  }
  void TearDown() override { fs::remove_all(mount_); }
  void write(const char* file, const char* text) {
    fs::create_directories((mount_ / file).parent_path());
    std::ofstream(mount_ / file) << text;
  }
  ControlGroupCpu read(const char* groups) { return control_group_cpu(groups, mount_); }

  fs::path mount_;
};

TEST_F(ControlGroup, TheStrictestGroupCounts) {
  write("cpu.stat", "usage_usec 5\nthrottled_usec 0\n");
  write("a/cpu.max", "150000 100000\n");
  write("a/cpu.stat", "usage_usec 7\nnr_throttled 3\nthrottled_usec 1200\n");
  write("a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(read("0::/a/b\n").limit, 1.5);
  EXPECT_EQ(read("0::/a/b\n").throttled_us, 1200);
  EXPECT_EQ(read("0::/other\n").limit, 0);
  write("a/b/cpu.max", "50000 100000");
  EXPECT_EQ(read("0::/a/b\n").limit, 0.5);
}

TEST_F(ControlGroup, InAContainerTheGroupIsWhatIsMounted) {
  write("cpu.max", "50000 100000\n");
  write("cpu.stat", "throttled_usec 9\n");
  EXPECT_EQ(read("0::/\n").limit, 0.5);
  EXPECT_EQ(read("0::/docker/0123456789\n").limit, 0.5);
  EXPECT_EQ(read("0::/docker/0123456789\n").throttled_us, 9);
}

TEST_F(ControlGroup, Version1) {
  const char* groups = "12:memory:/a\n4:cpu,cpuacct:/a\n3:cpuset:/b\n1:name=systemd:/a\n";
  write("cpuset/b/cpu.max", "1 100000");  // of another controller
  EXPECT_EQ(read(groups).limit, 0);
  EXPECT_LT(read(groups).throttled_us, 0);
  write("cpu,cpuacct/a/cpu.cfs_quota_us", "-1\n");
  write("cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(read(groups).limit, 0);
  write("cpu,cpuacct/a/cpu.cfs_quota_us", "25000\n");
  write("cpu,cpuacct/a/cpu.stat", "nr_periods 1\nnr_throttled 1\nthrottled_time 3000000\n");
  EXPECT_EQ(read(groups).limit, 0.25);
  EXPECT_EQ(read(groups).throttled_us, 3000);
  fs::rename(mount_ / "cpu,cpuacct", mount_ / "cpu");
  EXPECT_EQ(read(groups).limit, 0.25);
}

TEST_F(ControlGroup, OddTextIsNoLimit) {
  for (const char* text : {"", "max", "0 100000", "50000 0", "x y", "-5 100000"}) {
    write("a/cpu.max", text);
    EXPECT_EQ(read("0::/a\n").limit, 0) << text;
  }
  for (const char* groups : {"", "x", "0:", "::::", "0::../../..\n"}) EXPECT_EQ(read(groups).limit, 0) << groups;
}

TEST(ControlGroupOfThisProcess, CanBeRead) { EXPECT_GE(control_group_cpu().limit, 0); }

}  // namespace
}  // namespace amdahl
