// Which methods of less communication go together, their texts, and the rows of unequal shares.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/compressed_blocks.h"
#include "plan/plan_rules.h"
#include "plan/shares.h"

namespace amdahl {
namespace {

TEST(SyncFields, TextsLeadToPlansAndBack) {
  for (const char* text :
       {"dp2,local8", "dp4,compress=int8", "dp4,compress=topk", "dp2,compress=topk,keep=0.05", "dp3,async2",
        "dp2,shares=3:1", "dp2,shares=auto", "dp3,shares=1:2:127,zero1", "dp2.tp2,compress=bf16"}) {
    const ParallelPlan plan = parse_plan(text);
    EXPECT_EQ(format_plan(plan), text);
    EXPECT_EQ(parse_plan(format_plan(plan)), plan) << text;
    EXPECT_TRUE(sync_fields_fit(plan).ok) << text << ": " << sync_fields_fit(plan).reason;
    EXPECT_EQ(sync_fields_fit(parse_plan(mesh_text(plan.mesh))).ok, true);
  }
  EXPECT_EQ(parse_plan("dp2,local-sgd=8"), parse_plan("dp2,local8"));
  EXPECT_EQ(parse_plan("dp2,async=2"), parse_plan("dp2,async2"));
  EXPECT_EQ(parse_plan("dp2,compress=topk,keep=0.07").keep_ppm, 70'000);
}

TEST(SyncFields, WhatDoesNotGoTogetherIsRefusedByName) {
  struct {
    const char *plan, *reason;
  } const kCases[] = {{"dp1,local8", "dp is 1"},
                      {"dp2,local8,compress=int8", "local8 and compress=int8 exclude each other"},
                      {"dp2,async1,compress=bf16", "exclude each other"},
                      {"dp2,compress=int8,zero1", "strategy is zero1"},
                      {"dp2.tp2,compress=int8", "tensor or pipeline"},
                      {"dp2.pp2,local4", "tensor or pipeline"},
                      {"dp2,keep=0.5", "compress=topk alone"},
                      {"dp2,shares=1:2:3", "3 weights, and dp is 2"},
                      {"dp3,shares=2:0:1", "gives a rank no rows"},
                      {"dp2,shares=3:0", "1 weights, and dp is 2"},
                      {"dp2,shares=2:1,replicated", "does not divide the rows"},
                      {"dp2,shares=2:1,local2", "averages count every rank alike"},
                      {"dp2.tp2,shares=auto", "whole model"}};
  for (const auto& [text, reason] : kCases) {
    const Feasibility fits = sync_fields_fit(parse_plan(text));
    EXPECT_FALSE(fits.ok) << text;
    EXPECT_NE(fits.reason.find(reason), std::string::npos) << text << ": " << fits.reason;
  }
  ParallelPlan plan = parse_plan("dp2,shares=127:1");
  plan.global_batch = 16;
  EXPECT_NE(sync_fields_fit(plan).reason.find("leaves a rank 0 rows"), std::string::npos);
}

TEST(SyncFields, TheNearestPlanKeepsWhatItCan) {
  const ModelSpec model = find_model_preset("medium");
  ParallelPlan plan = parse_plan("dp3,shares=1:2:5,compress=int8");
  plan.global_batch = 64;
  const auto fewer = nearest_plan(plan, model, 2);
  ASSERT_TRUE(fewer);
  EXPECT_EQ(format_plan(*fewer), "dp2,compress=int8");
  const auto one = nearest_plan(plan, model, 1);
  ASSERT_TRUE(one);
  EXPECT_EQ(format_plan(*one), "dp1,ddp");
}

TEST(UnequalShares, CoverEveryRowOnce) {
  for (const char* text :
       {"dp2,shares=3:1", "dp2,shares=127:1", "dp3,shares=1:1:1", "dp4,shares=9:1:1:2", "dp8,shares=1:2:3:4:5:6:7:8"})
    for (const int64_t batch : {8, 13, 64, 1000}) {
      ParallelPlan plan = parse_plan(text);
      plan.global_batch = batch;
      const std::vector<int> weights = unpack_shares(plan.shares);
      int sum = 0;
      for (const int weight : weights) sum += weight;
      int64_t next = 0;
      for (int rank = 0; rank < plan.mesh.dp; ++rank) {
        const RowRange rows = data_share(plan, rank);
        EXPECT_EQ(rows.begin, next) << text;
        next = rows.end;
        const double exact = static_cast<double>(batch) * weights[static_cast<size_t>(rank)] / sum;
        EXPECT_LE(std::abs(static_cast<double>(rows.rows()) - exact), 1.0) << text << " " << batch;
      }
      EXPECT_EQ(next, batch) << text;
    }
}

TEST(UnequalShares, FollowSpeeds) {
  ParallelPlan plan = parse_plan("dp2");
  plan.global_batch = 128;
  plan.shares = shares_by_speed({3000, 1000});
  EXPECT_EQ(data_share(plan, 0).rows(), 96);
  plan.shares = shares_by_speed({1000, 1000});
  EXPECT_EQ(data_share(plan, 0).rows(), 64);
  plan.shares = shares_by_speed({1e9, 1});  // the slowest keeps a weight
  EXPECT_EQ(data_share(plan, 1).rows(), 1);
}

TEST(UnequalShares, TextsAreChecked) {
  for (const char* wrong : {"", "3:", ":3", "3:128", "3:-1", "0:0", "a:b", "1:2:3:4:5:6:7:8:9", "3;1", "Auto"})
    EXPECT_THROW(parse_shares(wrong), Error) << wrong;
}

TEST(CompressedSizes, AreThoseOfTheMessages) {
  EXPECT_EQ(int8_message_bytes(1024), 1028);
  EXPECT_EQ(int8_message_bytes(1025), 2 * 4 + 1028);
  EXPECT_EQ(kept_of_block(10'000), 10);
  EXPECT_EQ(topk_message_bytes(2048, 10'000), 2 * 10 * 6);
}

}  // namespace
}  // namespace amdahl
