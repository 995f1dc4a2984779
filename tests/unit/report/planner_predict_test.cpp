// The planner's workload of a model under a plan, its account, and constants that it does not know.
#include "planner/predict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "parallel/stage_recording.h"
#include "plan/shards.h"
#include "planner/terms.h"
#include "planner/validate.h"

namespace amdahl {
namespace {

MeasuredIteration sample() {
  MeasuredIteration row;
  row.gpus = 8, row.tp = 2, row.dp = 2, row.pp = 2;
  row.global_batch = 32, row.micro_batch = 2, row.hidden = 1024, row.heads = 16, row.layers = 24;
  return row;
}

// As Model::backward_inputs and backward_weights divide a backward: a dense layer has both, another one has both
// gradients in the first, and the first layer of a model has only the second.
TEST(PlannerPredict, WeightGradientsOfDenseLayersAndOfTheFirstAreComputedByThemselves) {
  ParallelPlan plan;
  plan.global_batch = 8;
  const auto shares = [&](const char* model) {
    std::vector<double> all;
    const Workload work = make_workload(find_model_preset(model), plan, amdahl_profile());
    for (const LayerWork& layer : work.stages[0].layers) all.push_back(layer.weight_share);
    return all;
  };
  const double third = 1.0 / 3;
  EXPECT_EQ(shares("medium"), (std::vector<double>{2 * third, third, third, third}));
  EXPECT_EQ(shares("transformer"), (std::vector<double>{2 * third, 0, 0, 0, third}))
      << "projection, blocks, norm, pool";
}

TEST(PlannerPredict, WorkloadDividesTheModel) {
  ParallelPlan single;
  single.global_batch = 8;
  const Workload whole = make_workload(find_model_preset("gpt2"), single, amdahl_profile());
  ASSERT_EQ(whole.stages.size(), 1u);
  EXPECT_NEAR(whole.stages[0].parameters, static_cast<double>(find_model_preset("gpt2").num_parameters()), 1);
  const Workload part = make_workload(model_of(sample()), plan_of(sample()), megatron_profile());
  ASSERT_EQ(part.stages.size(), 2u);
  EXPECT_EQ(part.micro_batches, 8);
  EXPECT_DOUBLE_EQ(part.micro_rows, 2);
  EXPECT_DOUBLE_EQ(part.transfer_bytes, 2.0 * 1024 * 1024 * 2 / 2) << "each rank of tp sends a part";
  int blocks = 0;
  for (const StageWork& stage : part.stages)
    for (const LayerWork& layer : stage.layers) blocks += layer.collectives > 0 ? layer.repeats : 0;
  EXPECT_EQ(blocks, 24);
}

TEST(PlannerPredict, AccountAddsUpAndGrowsWithWork) {
  const Calibration calibration = [] {
    Calibration c = calibration_of(Rates{}, ConstantOrigin::assumed, "test");
    c.software = "megatron";
    return c;
  }();
  const StepPrediction step = predict_step(model_of(sample()), plan_of(sample()), calibration);
  const PlanAccount& a = step.account;
  EXPECT_DOUBLE_EQ(step.step_us, a.compute_us + a.exposed_tp_us + a.exposed_pp_us + a.exposed_dp_us + a.bubble_us +
                                     a.optimizer_us + a.gaps_us);
  for (const double part :
       {a.compute_us, a.exposed_tp_us, a.exposed_pp_us, a.exposed_dp_us, a.bubble_us, a.optimizer_us, a.gaps_us})
    EXPECT_GT(part, 0);
  EXPECT_LT(step.interval.low, step.step_us);
  EXPECT_GT(step.interval.high, step.step_us);
  MeasuredIteration longer = sample();
  longer.global_batch *= 2;
  EXPECT_GT(predict_step(model_of(longer), plan_of(longer), calibration).step_us, step.step_us);
}

TEST(PlannerPredict, RefusesWhatTheEngineRefuses) {
  const auto why = [](const MeasuredIteration& row) -> std::string {
    try {
      make_workload(model_of(row), plan_of(row), megatron_profile());
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::usage);
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(why(sample()), "");
  MeasuredIteration row = sample();
  row.tp = 3;
  EXPECT_NE(why(row).find("the 16 heads of layer 1 cannot be divided among 3 tensor-parallel ranks"), std::string::npos)
      << why(row);
  row = sample(), row.pp = 25;
  EXPECT_NE(why(row).find("cannot be divided evenly among 25 pipeline stages"), std::string::npos) << why(row);
}

TEST(PlannerPredict, TensorParallelLayersAreThoseOfTheEngine) {
  ParallelPlan plan = parse_plan("tp2");
  plan.global_batch = 32;
  const ModelSpec model = find_model_preset("medium");
  const Workload half = make_workload(model, plan, amdahl_profile());
  plan.mesh.tp = 1;
  const Workload whole = make_workload(model, plan, amdahl_profile());
  double collectives = 0, flops = 0, all_flops = 0;
  for (const LayerWork& layer : half.stages[0].layers) {
    collectives += layer.collectives;
    for (const GemmWork& gemm : layer.gemms) flops += gemm.m * gemm.n * gemm.k;
  }
  for (const LayerWork& layer : whole.stages[0].layers)
    for (const GemmWork& gemm : layer.gemms) all_flops += gemm.m * gemm.n * gemm.k;
  int pairs = 0, columns = 0;
  for (const TensorRole role : tensor_roles(model))
    pairs += role == TensorRole::row, columns += role != TensorRole::whole;
  EXPECT_EQ(collectives, 2 * pairs - 1) << "a sum forward and one backward, but no gradient of the data";
  EXPECT_LT(flops, all_flops);
  EXPECT_GE(flops, all_flops / 2 * (1 - 1e-12));
  EXPECT_EQ(flops == all_flops / 2, columns == static_cast<int>(model.layers.size()));
}

TEST(PlannerRates, UnknownConstantsAreRefused) {
  Calibration calibration;
  calibration.constants.push_back({"gemm_tflop", 1, "TFLOP/s", ConstantOrigin::measured, ""});
  try {
    rates_of(calibration);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::usage);
    EXPECT_NE(error.line().find("gemm_tflops"), std::string::npos) << error.line();
  }
}

/// Products of Llama 3's vocabulary by operations recorded and by the planner's counts: bytes of operands and results,
/// with those of a gradient that the next chunk reads, and FLOP.
TEST(PlannerPredict, CountsTheChunksOfATokenHead) {
  const ModelSpec model = find_model_preset("llama3.2-1b");
  const double row_tokens = static_cast<double>(model.input_shape[0]);
  for (const int64_t rows : {1, 6}) {
    ParallelPlan plan;
    plan.global_batch = rows;
    const LayerWork head = make_workload(model, plan, amdahl_profile()).stages[0].layers.back();
    const GemmWork& gemm = head.gemms[0];
    const double tokens = static_cast<double>(rows) * row_tokens, weights = gemm.n * gemm.k;
    EXPECT_EQ(gemm.count, std::ceil(tokens / 2048)) << "chunks of a GiB in f32";
    EXPECT_DOUBLE_EQ(head.kernels, 4 * (gemm.count - 1));
    const double logit_bytes = tokens * gemm.n * amdahl_profile().logit_bytes;
    const double counted = 4 * 3 * (gemm.count * weights + tokens * (gemm.n + gemm.k)) + head.bytes - logit_bytes;
    const StageCase whole{.layers = {0, model.layers.size()}, .roles = tensor_roles(model), .rows = rows};
    double bytes = 0, flops = 0;
    for (const RecordedOp& op : record_stage(model, whole, BackendKind::cpu, MathMode::fp32).backward.ops) {
      if (op.products.empty()) continue;
      const RecordedProduct& product = op.products[0];
      if (std::max({product.m, product.n, product.k}) < model.vocabulary()) continue;
      bytes += static_cast<double>(op.bytes);
      flops += product.flops();
    }
    EXPECT_NEAR(counted / bytes, 1, 0.03) << rows;
    EXPECT_NEAR(6 * tokens * weights / flops, 1, 1e-9) << rows;
  }
}

}  // namespace
}  // namespace amdahl
