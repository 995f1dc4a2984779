// A whole run has one progress: one total, and a count that only rises to it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "amdahl/fabric.h"

namespace amdahl {
namespace {

class Counts : public Observer {
 public:
  void progress(int done, int total, const std::string& what) override {
    EXPECT_FALSE(what.empty());
    done_.push_back(done);
    totals_.push_back(total);
  }

  void expect_one_bar() const {
    ASSERT_GT(done_.size(), 3u);
    EXPECT_EQ(done_.front(), 0);
    EXPECT_EQ(done_.back(), totals_.back());
    for (size_t i = 1; i < done_.size(); ++i) {
      EXPECT_EQ(done_[i], done_[i - 1] + 1);
      EXPECT_EQ(totals_[i], totals_[0]);
    }
  }

 private:
  std::vector<int> done_, totals_;
};

TEST(OverallProgress, OfSeveralLinkTestsIsOneBar) {
  LinksConfig config;
  config.backend = "cpu";
  config.devices = 2;
  config.tests = {"device_to_device_memcpy_write_ce", "device_to_device_memcpy_read_ce", "integrity"};
  config.buffer_bytes = 1 << 16;
  Counts counts;
  run_links(config, counts);
  counts.expect_one_bar();
}

TEST(OverallProgress, OfADoctorIsOneBar) {
  DoctorConfig config;
  config.backend = "cpu";
  config.devices = 2;
  Counts counts;
  run_doctor(config, counts);
  counts.expect_one_bar();
}

}  // namespace
}  // namespace amdahl
