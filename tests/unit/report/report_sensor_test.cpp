// Tables of the sensor benchmark: what is a gain and against what, and what is said of errors.
#include "sensor/report/page.h"

#include <gtest/gtest.h>

#include "report/page/text_page.h"

namespace amdahl {
namespace {

Record cloud_record(int64_t devices, int64_t items, std::vector<double> time_us) {
  Record record;
  record.kind = "sensor";
  record.provenance.device_kind = "cuda";
  record.axes = {{"op", std::string("voxelize")},
                 {"mode", std::string("data")},
                 {"devices", devices},
                 {"scaling", std::string("strong")},
                 {"dtype", std::string("f32")},
                 {"workload", "p" + std::to_string(items) + " 8x8x8"},
                 {"items", items},
                 {"points", items},
                 {"path", std::string("direct")},
                 {"cache", std::string("hot")},
                 {"launch", std::string("graph")},
                 {"voxel_mode", std::string("count")},
                 {"merge", std::string(devices > 1 ? "collective" : "none")}};
  std::vector<double> rates;
  for (const double us : time_us) rates.push_back(static_cast<double>(items) / us * 1e6);
  record.series = {{"time", "us", time_us},
                   {"throughput", "points/s", rates},
                   {"bandwidth", "GB/s", std::vector<double>(time_us.size(), 1)}};
  if (devices > 1) {
    record.series.push_back({"merge_time", "us", {20, 20}});
    record.series.push_back({"communication_share", "percent", {25, 25}});
  }
  return record;
}

using Times = std::vector<double>;

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(SensorText, StrongScalingComparesTheSameWork) {
  const std::string text =
      text_page(sensor_page({cloud_record(1, 1000, Times(5, 100)), cloud_record(4, 1000, Times(5, 40))}));
  EXPECT_TRUE(says(text, "voxelize, mode data, strong scaling, f32, hot, graph")) << text;
  EXPECT_TRUE(says(text, "2.500 [2.500, 2.500]")) << text;
  EXPECT_TRUE(says(text, "62.50")) << text;
  EXPECT_TRUE(says(text, "collective")) << text;
  EXPECT_FALSE(says(text, "virtual")) << text;
}

TEST(SensorText, WeakScalingComparesTheSameWorkOfADevice) {
  std::vector<Record> records{cloud_record(1, 1000, Times(5, 100)), cloud_record(2, 2000, Times(5, 125))};
  for (Record& record : records) record.axes["scaling"] = std::string("weak");
  const std::string text = text_page(sensor_page(records));
  EXPECT_TRUE(says(text, "1.600 [1.600, 1.600]")) << text;  // twice the points in 1.25 of the time
  EXPECT_TRUE(says(text, "80.00")) << text;
}

TEST(SensorText, OtherWorkIsNoBaseline) {
  for (const char* axis : {"voxel_mode", "dtype", "cache", "workload"}) {
    std::vector<Record> records{cloud_record(1, 1000, Times(5, 100)), cloud_record(2, 1000, Times(5, 50))};
    records.front().axes[axis] = std::string("another");
    EXPECT_FALSE(says(text_page(sensor_page(records)), "2.000 [")) << axis;
  }
  EXPECT_FALSE(says(text_page(sensor_page({cloud_record(1, 1000, Times(5, 100)), cloud_record(2, 500, Times(5, 50))})),
                    "2.000 ["));
}

TEST(SensorText, SaysWhatFailedAndWhatTheCardDid) {
  Record record = cloud_record(2, 1000, Times(5, 50));
  record.status = {Status::Kind::failed, "device 1: voxel 7 is 3 and must be 4"};
  record.series.push_back({"sm_clock_before", "MHz", {1980, 1980}});
  record.series.push_back({"sm_clock", "MHz", {1980, 1700}});
  record.series.push_back({"throttle_reasons", "bits", {0x1, 0x4}});
  const std::string text = text_page(sensor_page({record}));
  EXPECT_TRUE(says(text, "FAILED voxelize p1000 8x8x8, data, count, 2 devices: device 1: voxel 7 is 3 and must be 4"));
  EXPECT_TRUE(says(text, "the SM clock of device 1 moved from 1980 to 1700 MHz")) << text;
  EXPECT_TRUE(says(text, "device 1 was throttled")) << text;
  EXPECT_FALSE(says(text, "device 0")) << text;
}

TEST(SensorText, ARecordWithoutTimesHasARow) {
  Record record = cloud_record(1, 1000, Times(5, 100));
  record.series.clear();
  record.status = {Status::Kind::failed, "out of memory"};
  const std::string text = text_page(sensor_page({record}));
  EXPECT_TRUE(says(text, "\np1000 8x8x8")) << text;
  EXPECT_TRUE(says(text, ": out of memory")) << text;
}

TEST(SensorText, VirtualDevicesAreNamed) {
  Record record = cloud_record(1, 1000, Times(5, 100));
  record.provenance.device_kind = "cpu-virtual";
  EXPECT_TRUE(text_page(sensor_page({record})).find("\nMeasured on CPU virtual devices, not GPUs.\n") !=
              std::string::npos);
}

}  // namespace
}  // namespace amdahl
