// failure.json: written once, read again, refused when damaged.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "report/common/failure.h"
#include "spec/failure.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

Failure sample() {
  Failure failure;
  failure.cause = "rank-died";
  failure.message = "rank 1 died (process 41 on node7)";
  failure.remedy = "the messages of rank 1";
  failure.time = "2026-01-02T03:04:05Z";
  failure.rank = 1;
  failure.host = "node7";
  failure.signal = 11;
  failure.ranks = {
      {0, "node6", 40, false, 0, {{811, "exchange #3", 2, 6, true}, {812, "all_reduce #640", 2, 5.02, false}}},
      {1, "node7", 41, true, 11, {}}};
  return failure;
}

TEST(Failure, ComesBackFromJson) {
  const Failure failure = sample();
  const Failure again = failure_from_json(failure_to_json(failure), "failure.json");
  EXPECT_EQ(failure_to_json(again), failure_to_json(failure));
  EXPECT_EQ(again.rank, 1);
  EXPECT_EQ(again.signal, 11);
  ASSERT_EQ(again.ranks.size(), 2U);
  EXPECT_TRUE(again.ranks[1].ended);
  ASSERT_EQ(again.ranks[0].calls.size(), 2U);
  EXPECT_DOUBLE_EQ(again.ranks[0].calls[1].age_seconds, 5.02);
}

TEST(Failure, RefusesWhatIsDamaged) {
  for (const char* text : {"", "{}", "[]", R"({"type":"failure","version":1})"})
    EXPECT_THROW(failure_from_json(text, "f"), Error);
  std::string newer = failure_to_json(sample());
  newer.replace(newer.find("\"version\": 1"), 12, "\"version\": 9");
  try {
    failure_from_json(newer, "f");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::version_refused);
  }
}

TEST(Failure, TheFirstOneStays) {
  std::string pattern = (fs::temp_directory_path() / "amdahl-failure-XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());
  EXPECT_FALSE(read_failure(folder));
  write_failure(folder, sample());
  Failure second = sample();
  second.message = "a consequence";
  write_failure(folder, second);
  ASSERT_TRUE(read_failure(folder));
  EXPECT_EQ(read_failure(folder)->message, sample().message);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1) << "a draft is left";
  remove_failure(folder);
  EXPECT_FALSE(read_failure(folder));
  fs::remove_all(folder);
}

TEST(Failure, TextHasCauseRanksAndLastCalls) {
  const std::string text = failure_text(sample());
  for (const char* part :
       {"rank-died", "rank 1", "(signal 11)", "all_reduce #640", "unfinished", "5.020 s", "node7", "ended"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  EXPECT_EQ(text.find("exchange #3"), std::string::npos) << "only the call that a rank was in is shown";
}

}  // namespace
}  // namespace amdahl
