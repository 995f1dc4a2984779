// Which method of communication at which size: thresholds from records, their file, and what GEMMs with tiles win.
#include <gtest/gtest.h>

#include "errors.h"
#include "report/fabric/onesided_choice.h"
#include "report/fabric/onesided_contests.h"
#include "spec/json.h"
#include "symmetric/symmetric_collectives.h"

namespace amdahl {
namespace {

Record latency_record(const std::string& operation, const std::string& transport, int64_t bytes, double us) {
  Record record;
  record.kind = "onesided";
  record.provenance.device_kind = "cuda";
  record.axes = {{"operation", operation},
                 {"transport", transport},
                 {"bytes", bytes},
                 {"devices", int64_t{2}},
                 {"ranks", std::string("threads")}};
  record.series.push_back({"latency", "us", {us}});
  return record;
}

/// ll wins up to 64 bytes, ll128 up to 1 KiB, one-shot at 4 KiB, two-shot above.
std::vector<Record> reductions(bool lines) {
  std::vector<Record> records;
  const std::vector<std::pair<int64_t, std::vector<double>>> sizes{{16, {1, 2, 3, 4}},   {64, {1, 2, 3, 4}},
                                                                   {256, {3, 1, 2, 4}},  {1024, {5, 1, 2, 4}},
                                                                   {4096, {9, 5, 2, 4}}, {16384, {30, 20, 10, 6}}};
  for (const auto& [bytes, us] : sizes) {
    records.push_back(latency_record("all_reduce", "symmetric ll", bytes, us[0]));
    if (lines) records.push_back(latency_record("all_reduce", "symmetric ll128", bytes, us[1]));
    records.push_back(latency_record("all_reduce", "symmetric one-shot", bytes, us[2]));
    records.push_back(latency_record("all_reduce", "symmetric two-shot", bytes, us[3]));
  }
  return records;
}

TEST(OneSidedChoice, ThresholdsOfEveryAlgorithm) {
  const std::vector<OneSidedChoice> choices = onesided_choices(reductions(true));
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].flagged_bytes, 64);
  EXPECT_EQ(choices[0].line_bytes, 1024);
  EXPECT_EQ(choices[0].one_shot_bytes, 4096);
  const OneSidedChoice::Rule& best = choices[0].rules.back();
  EXPECT_EQ(best.rule,
            "measured: ll up to 64 bytes, ll128 up to 1,024 bytes, one-shot up to 4,096 bytes, else two-shot");
  EXPECT_NEAR(best.mean_ratio, 1, 1e-12);
  for (const OneSidedChoice::Rule& rule : choices[0].rules) EXPECT_GE(rule.mean_ratio, best.mean_ratio) << rule.rule;
}

TEST(OneSidedChoice, WithoutLinesThereIsNoThresholdOfTheirs) {
  const std::vector<OneSidedChoice> choices = onesided_choices(reductions(false));
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].flagged_bytes, 64);
  EXPECT_EQ(choices[0].line_bytes, 0);
  EXPECT_EQ(choices[0].one_shot_bytes, 4096);
  for (const OneSidedChoice::Rule& rule : choices[0].rules)
    EXPECT_EQ(rule.rule.find("ll128"), std::string::npos) << rule.rule;
}

TEST(OneSidedChoice, AnotherLibrarysPutIsNoMessage) {
  std::vector<Record> records;
  for (const int64_t bytes : {8, 1024, 65536}) {
    records.push_back(latency_record("put_signal", "one-sided", bytes, 2));
    records.push_back(latency_record("put_signal", "nvshmem", bytes, bytes == 8 ? 1 : 3));
  }
  EXPECT_TRUE(onesided_choices(records).empty()) << "nothing sends and receives";
  ASSERT_EQ(onesided_contests(records).size(), 1u);
  EXPECT_EQ(onesided_contests(records)[0].winner(8), "nvshmem");
  for (const int64_t bytes : {8, 1024, 65536})
    records.push_back(latency_record("send_recv", "nccl", bytes, bytes > 8 ? 1 : 9));
  const std::vector<OneSidedChoice> choices = onesided_choices(records);
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].one_sided_bytes, 8);
}

TEST(OneSidedChoice, TheFileKeepsTheThresholds) {
  const std::vector<OneSidedChoice> choices = onesided_choices(reductions(true));
  const std::vector<OneSidedChoice> read = choices_from_json(choices_to_json(choices), "a file");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].flagged_bytes, 64);
  EXPECT_EQ(read[0].line_bytes, 1024);
  EXPECT_EQ(read[0].one_shot_bytes, 4096);
  const char* const older =
      R"({"version": 1, "choices": [{"device_kind": "cuda", "ranks": "threads", "devices": 2, "flagged_bytes": 64,
          "one_shot_bytes": 4096}]})";
  EXPECT_EQ(choices_from_json(older, "a file")[0].line_bytes, 0);
  const Error error = error_of([&] {
    choices_from_json(
        R"({"version": 1, "choices": [{"device_kind": "cuda", "ranks": "threads", "devices": 2, "flagged_bytes": 64,
            "line_bytes": -1, "one_shot_bytes": 4096}]})",
        "a file");
  });
  EXPECT_EQ(error.cause(), Cause::usage) << error.what();
}

TEST(OneSidedChoice, AlgorithmsBySize) {
  SymmetricOptions options;
  options.flagged_bytes = 64, options.line_bytes = 1024, options.one_shot_bytes = 4096;
  EXPECT_EQ(choose(options, 64), SymmetricAlgorithm::flagged);
  EXPECT_EQ(choose(options, 65), SymmetricAlgorithm::lines);
  EXPECT_EQ(choose(options, 1024), SymmetricAlgorithm::lines);
  EXPECT_EQ(choose(options, 1025), SymmetricAlgorithm::one_shot);
  EXPECT_EQ(choose(options, 4097), SymmetricAlgorithm::two_shot);
  options.line_bytes = 0;
  EXPECT_EQ(choose(options, 65), SymmetricAlgorithm::one_shot);
}

Record gemm_record(const std::string& transport, int64_t m, double us) {
  Record record;
  record.kind = "onesided-gemm";
  record.provenance.device_kind = "cpu-virtual";
  record.axes = {{"gemm", std::string("all_gather_gemm")},
                 {"transport", transport},
                 {"m", m},
                 {"n", int64_t{8}},
                 {"k", int64_t{8}},
                 {"type", std::string("f32")},
                 {"devices", int64_t{2}},
                 {"ranks", std::string("threads")}};
  if (transport.starts_with("one-sided")) record.axes["tiles"] = int64_t{4};
  record.series = {{"time", "us", {us}}, {"rate", "GFLOP/s", {1}}, {"wrong", "rows", {0}}};
  return record;
}

TEST(OneSidedChoice, TilesWinOrLoseAgainstTheFastestCollective) {
  std::vector<Record> records{gemm_record("threads", 16, 10),  gemm_record("symmetric", 16, 8),
                              gemm_record("one-sided", 16, 9), gemm_record("threads", 32, 10),
                              gemm_record("symmetric", 32, 8), gemm_record("one-sided", 32, 4)};
  const std::string text = gemm_contest_text(records);
  EXPECT_NE(text.find("loses, 0.89x"), std::string::npos) << text;
  EXPECT_NE(text.find("wins, 2.00x"), std::string::npos) << text;
  EXPECT_NE(gemm_verdict(records).find("win 1 of 2 GEMMs"), std::string::npos);
  records.back().status = {Status::Kind::failed, "3 rows are wrong"};
  EXPECT_NE(gemm_contest_text(records).find("FAILED: all_gather_gemm by one-sided: 3 rows are wrong"),
            std::string::npos);
  EXPECT_NE(gemm_verdict(records).find("win 0 of 1 GEMMs"), std::string::npos);
  EXPECT_TRUE(gemm_verdict({}).empty());
}

}  // namespace
}  // namespace amdahl
