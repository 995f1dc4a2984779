// What a table of `amdahl onesided` holds where one algorithm is the fastest at every size.
#include "report/fabric/onesided_choice.h"

#include <gtest/gtest.h>

namespace amdahl {
namespace {

Record all_reduce_record(const char* transport, int64_t bytes, double us) {
  Record record;
  record.kind = "onesided";
  record.provenance.device_kind = "cpu-virtual";
  record.axes = {{"operation", std::string("all_reduce")},
                 {"transport", std::string(transport)},
                 {"ranks", std::string("threads")},
                 {"devices", int64_t{2}},
                 {"bytes", bytes}};
  record.series = {{"latency", "us", {us}}};
  return record;
}

TEST(OneSidedChoice, TwoShotAtEverySizeIsAMeasuredChoice) {
  std::vector<Record> records;
  for (const int64_t bytes : {8, 1024, 65536}) {
    records.push_back(all_reduce_record("symmetric ll", bytes, 5));
    records.push_back(all_reduce_record("symmetric one-shot", bytes, 4));
    records.push_back(all_reduce_record("symmetric two-shot", bytes, 3));
  }
  const std::vector<OneSidedChoice> choices = onesided_choices(records);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].flagged_bytes, 0);
  EXPECT_EQ(choices[0].one_shot_bytes, 1) << "0 says that nothing was measured";
}

}  // namespace
}  // namespace amdahl
