// Runs and documents that are kept compressed: read as they were, refused when damaged, never written into.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "files/gzip.h"
#include "report_records.h"
#include "spec/run_folder.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

class PackedRun : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      gzip("");
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    std::string pattern = (fs::temp_directory_path() / "amdahl-packed-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    {
      RunFolder folder = RunFolder::create(folder_ / "run", header_);
      for (int i = 0; i < 3; ++i) folder.append(test::fake_record({}, i));
      folder.end();
    }
    plain_ = read_file(folder_ / "run" / kRecordsFile, Cause::internal);
  }
  void TearDown() override {
    if (!folder_.empty()) fs::remove_all(folder_);
  }
  void pack(const std::string& bytes) const {
    fs::remove(folder_ / "run" / kRecordsFile);
    std::ofstream(folder_ / "run" / kPackedRecordsFile, std::ios::binary) << bytes;
  }
  static Error error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      return error;
    }
    return Error(Cause::internal, "nothing was thrown");
  }

  fs::path folder_;
  std::string plain_;
  RunHeader header_{"study", {{"model", "medium"}}};
};

TEST_F(PackedRun, IsReadAsItWas) {
  const RunContents before = read_run(folder_ / "run");
  pack(gzip(plain_));
  const RunContents packed = read_run(folder_ / "run");
  EXPECT_TRUE(packed.chained && packed.ended && packed.notes.empty());
  ASSERT_EQ(packed.records.size(), before.records.size());
  for (size_t i = 0; i < before.records.size(); ++i) {
    EXPECT_EQ(packed.records[i].axes, before.records[i].axes);
    EXPECT_EQ(packed.records[i].value("step_time"), before.records[i].value("step_time"));
  }
  EXPECT_EQ(read_run(folder_ / "run" / kPackedRecordsFile).records.size(), 3U);
}

TEST_F(PackedRun, DamageIsNamed) {
  const std::string packed = gzip(plain_);
  for (size_t cut : {size_t{2}, size_t{9}, packed.size() / 2, packed.size() - 1}) {
    pack(packed.substr(0, cut));
    const Error error = error_of([&] { read_run(folder_ / "run"); });
    EXPECT_EQ(error.cause(), Cause::store_corrupt) << cut << " of " << packed.size() << ": " << error.what();
    EXPECT_NE(std::string(error.what()).find(kPackedRecordsFile), std::string::npos) << error.what();
  }
  std::string changed = packed;
  changed[packed.size() - 6] ^= 1;  // of the checksum
  pack(changed);
  EXPECT_EQ(error_of([&] { read_run(folder_ / "run"); }).cause(), Cause::store_corrupt);
  pack(packed + "more");
  EXPECT_EQ(error_of([&] { read_run(folder_ / "run"); }).cause(), Cause::store_corrupt);
  std::string edited = plain_;
  edited.replace(edited.find("\"run\":1"), 7, "\"run\":2");
  pack(gzip(edited));
  EXPECT_EQ(error_of([&] { read_run(folder_ / "run"); }).cause(), Cause::store_corrupt) << "the chain of lines holds";
}

TEST_F(PackedRun, IsNotWrittenInto) {
  pack(gzip(plain_));
  const Error resumed = error_of([&] { RunFolder::resume(folder_ / "run", header_); });
  EXPECT_EQ(resumed.cause(), Cause::usage);
  EXPECT_NE(resumed.remedy().find("gunzip"), std::string::npos) << resumed.remedy();
  EXPECT_EQ(error_of([&] { RunFolder::create(folder_ / "run", header_); }).cause(), Cause::usage);
  EXPECT_FALSE(fs::exists(folder_ / "run" / kRecordsFile));
}

TEST_F(PackedRun, AFileThatIsLongerThanItMayBeIsRefused) {
  const std::string bomb = gzip(std::string(size_t{8} << 20, 'a'));
  EXPECT_EQ(gunzip(bomb, "f", Cause::usage, size_t{8} << 20).size(), size_t{8} << 20);
  EXPECT_EQ(error_of([&] { gunzip(bomb, "f", Cause::usage, size_t{1} << 20); }).cause(), Cause::usage);
}

}  // namespace
}  // namespace amdahl
