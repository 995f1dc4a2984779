// What a table of `amdahl onesided` holds where one algorithm is the fastest at every size.
#include "report/fabric/onesided_choice.h"

#include <gtest/gtest.h>

#include "report/fabric/pages.h"

namespace amdahl {
namespace {

Record onesided_record(const char* operation, const char* transport, int64_t bytes, double us) {
  Record record;
  record.kind = "onesided";
  record.provenance.device_kind = "cpu-virtual";
  record.axes = {{"operation", std::string(operation)},
                 {"transport", std::string(transport)},
                 {"ranks", std::string("threads")},
                 {"devices", int64_t{2}},
                 {"bytes", bytes}};
  record.series = {{"latency", "us", {us}}};
  return record;
}

Record all_reduce_record(const char* transport, int64_t bytes, double us) {
  return onesided_record("all_reduce", transport, bytes, us);
}

Record locality_record(const char* placement, const char* method, int64_t bytes, double us) {
  Record record = onesided_record("", "", bytes, us);
  record.kind = "onesided-locality";
  record.axes.insert({{"placement", std::string(placement)}, {"method", std::string(method)}, {"passes", int64_t{8}}});
  record.series = {{"time", "us", {us}}};
  return record;
}

TEST(OneSidedPage, TheHeadlineSaysFasterThanWhat) {
  std::vector<Record> records;
  for (const int64_t bytes : {8, 1024}) {
    records.push_back(onesided_record("put_signal", "one-sided", bytes, 2));
    records.push_back(onesided_record("send_recv", "nccl", bytes, 9));
  }
  EXPECT_EQ(onesided_page(records).verdict,
            "Between 2 threads, put with a signal sends a message of up to 1,024 bytes faster than nccl.");
}

TEST(OneSidedPage, TheHeadlineOfPlacementsIsWhetherACopyPays) {
  const std::vector<Record> records{
      locality_record("local", "in place", 1024, 10), locality_record("local", "copied first", 1024, 20),
      locality_record("host", "in place", 4096, 60), locality_record("host", "copied first", 4096, 20)};
  EXPECT_EQ(
      onesided_page(records).verdict,
      "A kernel whose data is copied first is faster in 1 of 2 cases, at most 3.00x: 4,096 bytes of host memory.");
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
