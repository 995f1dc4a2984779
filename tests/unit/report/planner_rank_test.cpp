// Enumeration, ranking, explanation and assumptions of the planner.
#include "planner/rank.h"

#include <gtest/gtest.h>

#include <set>

#include "plan/plan_rules.h"
#include "planner/advise.h"
#include "planner/predict.h"
#include "planner/what_if.h"
#include "report/page/text_page.h"
#include "report/plan/page.h"
#include "spec/calibration_json.h"

namespace amdahl {
namespace {

Calibration assumed(const char* what_if) { return assume(parse_what_if(what_if), "bf16"); }

PlanOutcome ranked(const Calibration& calibration, const char* model, int64_t batch, int devices) {
  PlanOutcome outcome;
  outcome.model = find_model_preset(model);
  outcome.global_batch = batch, outcome.most_devices = devices, outcome.calibration = calibration;
  RankRequest request;
  request.global_batch = batch, request.most_devices = devices;
  rank_plans(outcome.model, calibration, request, outcome);
  return outcome;
}

std::string refusal(const char* what_if) {
  try {
    assumed(what_if);
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::usage) << what_if;
    return error.what();
  }
  return "accepted";
}

TEST(PlannerRank, EveryPlanIsFeasibleAndHasATextOfItsOwn) {
  const ModelSpec model = find_model_preset("gpt2");
  std::set<std::string> texts;
  for (int devices = 1; devices <= 6; ++devices) {
    PlanQuery query{.num_devices = devices, .global_batch = 48};
    query.all_schedules = query.all_micro_batches = query.all_options = true;
    for (const ParallelPlan& plan : enumerate_plans(model, query)) {
      const std::string text = format_plan(plan);
      EXPECT_TRUE(texts.insert(text).second) << text << " twice";
      EXPECT_TRUE(plan_feasible(plan, model).ok) << text;
      ParallelPlan back = parse_plan(text);
      back.global_batch = 48;
      EXPECT_EQ(back, plan) << text;
    }
  }
  for (const char* text : {"dp1", "dp2.tp3,m4,zero1", "dp2.pp3,m8,recompute=block,zb-v", "pp2,m12,interleaved",
                           "dp4,no-overlap", "dp4,bucket-mb=5"})
    EXPECT_TRUE(texts.count(text)) << text;
}

TEST(PlannerRank, TheBestIsTheFastestThatFits) {
  const PlanOutcome outcome = ranked(assumed("gpus=8,gpu=h200"), "gpt2", 512, 8);
  ASSERT_GE(outcome.ranking.size(), 10u);
  for (size_t i = 1; i < outcome.ranking.size(); ++i)
    EXPECT_LE(outcome.ranking[i - 1].step.step_us, outcome.ranking[i].step.step_us * (1 + 1e-9));
  EXPECT_EQ(outcome.ranking[0].step.plan.mesh.dp, 8) << "a small model with a large batch";
  for (const RankedPlan& plan : outcome.ranking) EXPECT_LE(plan.step.memory.total(), 141e9) << plan.text;
  ASSERT_EQ(outcome.by_devices.size(), 8u);
  EXPECT_EQ(outcome.by_devices[0].devices, 1);
  EXPECT_EQ(outcome.by_devices[7].verdict, "would pay");
  EXPECT_NE(text_page(plan_page(outcome, "")).find("Best: dp8"), std::string::npos);
}

TEST(PlannerRank, SmallModelsDoNotPayAndLargeOnesNeedTheirDevices) {
  const PlanOutcome small = ranked(assumed("gpus=4,gpu=h200"), "medium", 64, 4);
  EXPECT_EQ(small.ranking[0].step.plan.num_devices(), 1);
  for (const DevicesAnswer& answer : small.by_devices) EXPECT_NE(answer.verdict, "would pay") << answer.best;
  const PlanOutcome large = ranked(assumed("gpus=8,gpu=h200,memory-gb=12"), "gpt2-xl", 64, 8);
  EXPECT_GT(large.num_too_large, 0);
  EXPECT_GT(large.by_devices.front().devices, 1) << "one device is too small";
  EXPECT_NE(large.by_devices.front().verdict.find("no plan that fits"), std::string::npos);
  try {
    ranked(assumed("gpus=2,gpu=h200,memory-gb=1"), "gpt2-xl", 64, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("fits on no plan of up to 2 devices of 1.0 GB"), std::string::npos)
        << error.what();
  }
}

TEST(PlannerRank, ManyPlansTakeLittleTime) {
#ifdef NDEBUG
  const PlanOutcome outcome = ranked(assumed("gpus=72,gpu=h200"), "gpt2", 4096, 72);
  EXPECT_GT(outcome.num_plans, 100'000);
  EXPECT_LT(outcome.seconds * 1e5 / static_cast<double>(outcome.num_plans), 10) << "seconds per 100,000 plans";
#else  // sanitizers make it ten times slower: the time says nothing there
  const PlanOutcome outcome = ranked(assumed("gpus=8,gpu=h200"), "gpt2", 4096, 8);
  EXPECT_GT(outcome.num_plans, 1'000);
#endif
}

TEST(PlannerRank, TermsOfAPlanAddUp) {
  const Calibration calibration = assumed("gpus=8,gpu=h200");
  for (const char* text : {"dp8", "dp2.tp2.pp2,m8", "pp2,m4,zb-v", "tp4,m4,recompute=block", "dp1"}) {
    PlanOutcome outcome;
    ParallelPlan plan = parse_plan(text);
    plan.global_batch = 64;
    explain_plan(find_model_preset("gpt2"), calibration, plan, outcome);
    double sum = 0;
    for (const ExplainedTerm& term : outcome.terms) {
      sum += term.us;
      EXPECT_FALSE(term.formula.empty());
    }
    EXPECT_NEAR(sum, outcome.explained.step.step_us, 1e-6 * sum) << text;
  }
}

TEST(PlannerThresholds, LargerBatchesPayFromSmallerSizes) {
  const std::vector<SizeThreshold> found = find_thresholds(assumed("gpu=h200,link=nvlink4"), {2, 4}, {64, 2048, 65536});
  ASSERT_EQ(found.size(), 6u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(found[i].parameters, 0) << "64 rows are too few for any size";
    EXPECT_GT(found[4 + i].parameters, 0);
    EXPECT_TRUE(found[2 + i].parameters == 0 || found[4 + i].parameters <= found[2 + i].parameters) << i;
  }
  const std::vector<SizeThreshold> slow = find_thresholds(assumed("gpu=h200,link=pcie3"), {2}, {65536});
  EXPECT_TRUE(slow[0].parameters == 0 || slow[0].parameters >= found[4].parameters) << "a slower link";
  EXPECT_EQ(find_thresholds(assumed("gpu=h200"), {4}, {6})[0].parameters, 0) << "6 rows on 4 devices";
}

TEST(PlannerAdvice, IsThatOfTheRanking) {
  Calibration calibration = assumed("gpus=4,gpu=h200");
  calibration.interval_factor = 0.5;
  const auto advice = [&](const char* model, int64_t batch) {
    return advise_predicted({.model = model, .global_batch = batch, .max_devices = 4}, find_model_preset(model),
                            calibration);
  };
  const Advice large = advice("gpt2", 512), small = advice("medium", 64);
  EXPECT_EQ(large.decision, "multi");
  EXPECT_NE(large.reason.find("4 devices, dp4"), std::string::npos) << large.reason;
  EXPECT_EQ(large.evidence.size(), 3u);
  EXPECT_EQ(small.decision, "single");
  for (const Advice& one : {large, small}) EXPECT_NE(one.reason.find("predicted"), std::string::npos);
  EXPECT_FALSE(large.command.empty()) << "a prediction of several devices is to be measured";
}

TEST(PlannerAdvice, ModelsOfASizeHaveIt) {
  for (const int64_t size : {10'000, 1'000'000, 300'000'000}) {
    const double ratio = static_cast<double>(dense_model_of(size).num_parameters()) / static_cast<double>(size);
    EXPECT_GE(ratio, 1) << size;
    EXPECT_LT(ratio, 1.05) << size;
  }
}

TEST(PlannerWhatIf, NamesWhatIsImpossible) {
  EXPECT_EQ(refusal("gpus=8,gpu=h200,link=pcie5,memory-gb=40"), "accepted");
  EXPECT_EQ(refusal("gpus=1,link=pcie5"), "what-if gpus=1,link=pcie5: one device has no link");
  EXPECT_EQ(refusal("gpus=8,gpus=2"), "what-if has two values of gpus");
  EXPECT_EQ(refusal("link=pcie9,gpu=h200"), "unknown link 'pcie9'");
  EXPECT_EQ(refusal("gpus=0"), "what-if gpus: '0' is no number from 1 to 4096");
  EXPECT_EQ(refusal("speed=2"), "what-if does not know 'speed'");
}

TEST(PlannerWhatIf, MarksWhatItAssumes) {
  Calibration measured = assumed("gpu=h200,gpus=2");
  for (CalibrationConstant& constant : measured.constants) constant.origin = ConstantOrigin::measured;
  measured.device_name = "NVIDIA H200";
  const Calibration linked = assume(measured, parse_what_if("gpus=8,link=pcie5"));
  EXPECT_EQ(linked.find("dp_gbps")->origin, ConstantOrigin::assumed);
  EXPECT_NEAR(linked.find("dp_gbps")->value, 63 * 0.8 * 0.73, 1e-6);
  EXPECT_EQ(linked.find("gemm_tflops")->origin, ConstantOrigin::measured);
  const Calibration other = assume(measured, parse_what_if("gpu=a100"));
  EXPECT_EQ(other.find("gemm_tflops")->origin, ConstantOrigin::assumed);
  EXPECT_NEAR(other.find("gemm_tflops")->value, measured.find("gemm_tflops")->value * 312 / 989, 1e-9);
  EXPECT_EQ(other.memory_bytes, 80'000'000'000);
  measured.device_name = "a CPU";
  EXPECT_THROW(assume(measured, parse_what_if("gpu=a100")), Error);
}

TEST(PlannerWhatIf, NodesHaveANetwork) {
  const auto value = [](const char* what_if, const char* name) { return assumed(what_if).find(name)->value; };
  const char* const each = "gpu=h200,nodes=8,network=net400";
  EXPECT_EQ(parse_what_if(each).gpus, 64);
  EXPECT_EQ(parse_what_if(each, 4).gpus, 32);
  EXPECT_EQ(value(each, "node_devices"), 8);
  EXPECT_DOUBLE_EQ(value(each, "net_gbps"), 8 * 50 * 0.92);
  EXPECT_DOUBLE_EQ(value("gpu=a100,gpus=64,nodes=16,network=2xnet200", "net_gbps"), 2 * 25 * 0.92);
  const double one = ranked(assumed("gpu=h200,gpus=16"), "gpt2-xl", 64, 16).ranking[0].step.step_us;
  EXPECT_GT(ranked(assumed("gpu=h200,gpus=16,nodes=2,network=1xnet200"), "gpt2-xl", 64, 16).ranking[0].step.step_us,
            one);
}

TEST(PlannerWhatIf, AGpuOfAFileIsAsOneOfTheCatalogue) {
  EXPECT_EQ(parse_what_if("gpus=2,gpu=new.toml").gpu_file, "new.toml");
  EXPECT_FALSE(parse_what_if("gpus=2,gpu=new.toml").gpu);
  WhatIf what_if = parse_what_if("gpus=4,gpu=a100,link=pcie3");
  const Calibration catalogued = assume(what_if, "bf16");
  what_if.gpu->name = "another", what_if.gpu->source = "a file";
  const Calibration other = assume(what_if, "bf16");
  EXPECT_EQ(other.device_name, "another");
  for (size_t i = 0; i < catalogued.constants.size(); ++i)
    EXPECT_EQ(other.constants[i].value, catalogued.constants[i].value) << other.constants[i].name;
  EXPECT_EQ(other.find("gemm_tflops")->source, "a file");
  what_if.link = &find_link_kind("nvlink4");
  EXPECT_THROW(assume(what_if, "bf16"), Error) << "the a100 has nvlink3";
}

TEST(PlannerCalibration, IsKeptInAMachineFile) {
  const Calibration one = assumed("gpu=h200,gpus=2");
  const std::string text = with_calibrations(R"({"version": 1, "host": "h"})", {one});
  const std::vector<Calibration> back = calibrations_from_json(text, "machine.json");
  ASSERT_EQ(back.size(), 1u);
  EXPECT_EQ(back[0].device_name, one.device_name);
  EXPECT_EQ(back[0].constants.size(), one.constants.size());
  for (size_t i = 0; i < one.constants.size(); ++i)
    EXPECT_DOUBLE_EQ(back[0].constants[i].value, one.constants[i].value);
  EXPECT_EQ(calibrations_from_json(with_calibrations(text, {one}), "m").size(), 1u) << "replaced";
  Calibration other = one;
  other.math = "tf32";
  EXPECT_EQ(calibrations_from_json(with_calibrations(text, {other}), "m").size(), 2u);
  EXPECT_THROW(calibrations_from_json(R"({"calibrations": [{"math": 1}]})", "m"), Error);
}

}  // namespace
}  // namespace amdahl
