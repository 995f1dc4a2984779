// Settings of Records in words.
#include "report/common/settings.h"

#include <gtest/gtest.h>

#include <string>

namespace amdahl {
namespace {

const AxisValue kWord = std::string("ddp");

TEST(Settings, ValuesHaveTheirUnitsInColumns) {
  EXPECT_EQ(axis_value("bucket_bytes", int64_t{26214400}), "25 MiB");
  EXPECT_EQ(axis_value("bytes", int64_t{1000}), "1,000 B");
  EXPECT_EQ(axis_value("num_parameters", int64_t{54403}), "54,403");
  EXPECT_EQ(axis_value("keep_ppm", int64_t{2500}), "0.25 %");
  EXPECT_EQ(axis_value("overlap", true), "on");
  EXPECT_EQ(axis_value("in_place", false), "no");
  EXPECT_EQ(axis_value("strategy", kWord), "ddp");
}

TEST(Settings, PairedValuesAreBothThere) {
  EXPECT_EQ(axis_value("bucket_bytes", std::string("26214400:5242880")), "25 MiB against 5 MiB");
  EXPECT_EQ(setting_text("overlap", std::string("true:false")), "overlap on against off");
  EXPECT_EQ(setting_text("strategy", std::string("ddp:zero1")), "ddp:zero1");
  EXPECT_EQ(axis_value("shares", std::string("3:1")), "3:1") << "weights of two devices are one value";
}

TEST(Settings, SentencesNameThem) {
  EXPECT_EQ(setting_text("bucket_bytes", int64_t{26214400}), "buckets of 25 MiB");
  EXPECT_EQ(setting_text("overlap", false), "no overlap");
  EXPECT_EQ(setting_text("accumulate", int64_t{1}), "1 micro-batch");
  EXPECT_EQ(setting_text("recompute", std::string("block")), "recomputed blocks");
  EXPECT_EQ(setting_text("num_parameters", int64_t{54403}), "54,403 parameters");
  EXPECT_EQ(setting_text("devices", int64_t{1}), "1 device");
  EXPECT_EQ(setting_text("devices", int64_t{2}), "2 devices");
  EXPECT_EQ(setting_text("scaling", std::string("weak")), "weak scaling");
  EXPECT_EQ(setting_text("global_batch", int64_t{1024}), "global batch 1,024");
  EXPECT_EQ(setting_text("in_place", false), "out of place");
  EXPECT_EQ(setting_text("deterministic", false), "not deterministic");
  EXPECT_EQ(setting_text("policy", std::string()), "");
}

TEST(Settings, DamagedValuesStayValues) {
  EXPECT_EQ(setting_text("overlap", int64_t{7}), "overlap 7");
  EXPECT_EQ(setting_text("recompute", std::string("all")), "recompute all");
  EXPECT_EQ(setting_text("accumulate", std::string("many")), "accumulate many");
}

}  // namespace
}  // namespace amdahl
