// The planner's terms against values computed by hand, and their sums.
#include "planner/terms.h"

#include <gtest/gtest.h>

#include <cmath>

#include "parallel/pipeline/simulate.h"

namespace amdahl {
namespace {

Rates simple_rates() {
  Rates rates;
  rates.gemm_tflops = 100, rates.gemm_half_waves = 0, rates.gemm_units = 100, rates.gemm_tile = 128;
  rates.batched_gemm_tflops = 50, rates.memory_gbps = 1000, rates.optimizer_ps = 20;
  return rates;
}

TEST(PlannerTerms, GemmIsFlopOverRateAndWaves) {
  Rates rates = simple_rates();
  EXPECT_DOUBLE_EQ(gemm_us({1000, 1000, 1000}, rates), 20);  // 2 GFLOP at 100 TFLOP/s
  EXPECT_DOUBLE_EQ(gemm_waves({1280, 1280, 64}, rates), 1);  // 10 x 10 tiles on 100 multiprocessors
  EXPECT_DOUBLE_EQ(gemm_waves({129, 128, 64}, rates), 0.02);
  rates.gemm_half_waves = 1;
  EXPECT_DOUBLE_EQ(gemm_us({1280, 1280, 1000}, rates), 2 * 1280.0 * 1280 * 1000 / 100e6 * 2)
      << "one wave: half the rate";
  rates.gemm_half_waves = 0, rates.unaligned_gemm = 0.25;
  EXPECT_DOUBLE_EQ(gemm_us({1000, 1000, 1000, false}, rates), 80);
  EXPECT_DOUBLE_EQ(gemm_step_us({1000, 1000, 1000}, true, rates), 60);
  EXPECT_DOUBLE_EQ(gemm_step_us({1000, 1000, 1000}, false, rates), 40) << "the first layer has no input gradient";
}

TEST(PlannerTerms, OperandsOf16BitsAndLongSums) {
  Rates rates = simple_rates();
  rates.gemm_gbps = 100;
  GemmWork gemm{1000, 1000, 1000};
  gemm.element_bytes = 2;
  EXPECT_DOUBLE_EQ(gemm_us(gemm, rates), 20 + 60);
  GemmWork ahead = gemm;
  ahead.reads_ahead = true;
  EXPECT_DOUBLE_EQ(gemm_us(ahead, rates), std::hypot(20, 60));
  EXPECT_DOUBLE_EQ(gemm_step_us(gemm, true, rates), 60 + 3 * 60 + 20) << "gradients of weights are f32";
  rates.gemm_gbps = 0, rates.converting_gemm = 0.5;
  EXPECT_DOUBLE_EQ(gemm_us(gemm, rates), 20);
  gemm.converts = true;
  EXPECT_DOUBLE_EQ(gemm_us(gemm, rates), 40);
  const GemmWork sum{256, 256, 20480};
  GemmWork split = sum;
  split.splits_sums = true;
  EXPECT_DOUBLE_EQ(gemm_waves(sum, rates), 0.04);
  EXPECT_DOUBLE_EQ(gemm_waves(split, rates), 0.4) << "ten parts";
  split.k = 1e6;
  EXPECT_DOUBLE_EQ(gemm_waves(split, rates), 1) << "all multiprocessors";
  GemmWork strided{1000, 1000, 1000};
  strided.strided_weights = true;
  EXPECT_DOUBLE_EQ(gemm_step_us(strided, true, rates), 20 + 20 + 20 / 0.6);
}

TEST(PlannerTerms, AttentionIsSixProductsAndItsScores) {
  const Rates rates = simple_rates();
  // 16 heads, 1000 steps, 64 features: 6 x 2 x 16e6 x 64 FLOP at 50 TFLOP/s; 10 bytes of each score at 1 TB/s.
  EXPECT_DOUBLE_EQ(attention_us({16, 1000, 64, 0}, rates), 6 * 2 * 16e6 * 64 / 50e6);
  EXPECT_DOUBLE_EQ(attention_us({16, 1000, 64, 10}, rates), 6 * 2 * 16e6 * 64 / 50e6 + 160);
  EXPECT_DOUBLE_EQ(attention_us({}, rates), 0);
  // Six tenths of the scores; 16 x 10 blocks on 100 multiprocessors, half a wave idle.
  Rates waves = rates;
  waves.gemm_half_waves = 0.5;
  EXPECT_DOUBLE_EQ(attention_us({16, 1000, 64, 0, 0.6, 100}, waves), 1.2 * 6 * 16e6 * 64 / 50e6 * (1 + 0.5 / 1.6));
  // 2 x 10 blocks: the last ones of each head compute all scores, on one of 100 multiprocessors.
  const double block = 6 * 2 * 1000.0 * 100 * 64 / 50e6 * 100;
  EXPECT_DOUBLE_EQ(attention_us({2, 1000, 64, 0, 0.6, 100}, rates), block);
  EXPECT_DOUBLE_EQ(attention_us({4, 1000, 64, 0, 0.6, 100}, rates), block) << "on others";
}

TEST(PlannerTerms, MemoryAndOptimizer) {
  EXPECT_DOUBLE_EQ(memory_us(1e6, simple_rates()), 1);
  EXPECT_DOUBLE_EQ(optimizer_us(1e6, simple_rates()), 20);
}

TEST(PlannerTerms, CollectivesAreLatencyAndBytes) {
  EXPECT_DOUBLE_EQ(all_reduce_us(1e6, 1, 10, 100), 0);
  EXPECT_DOUBLE_EQ(all_reduce_us(1e6, 2, 10, 100), 20);
  EXPECT_DOUBLE_EQ(all_reduce_us(1e6, 4, 10, 100), 25);
  Rates rates = simple_rates();
  EXPECT_DOUBLE_EQ(ramp_us(4e6, rates), 0);
  rates.ramp_us = 10;
  EXPECT_DOUBLE_EQ(ramp_us(4e6, rates), 5);
  EXPECT_DOUBLE_EQ(transfer_us(1e6, 3, 100), 13);
}

TEST(PlannerTerms, HostAndDeviceAtOnce) {
  Rates rates = simple_rates();
  rates.queue_exponent = 2;
  EXPECT_DOUBLE_EQ(queue_us(3, 4, rates), 5);
  EXPECT_DOUBLE_EQ(queue_us(7, 0, rates), 7);
  rates.queue_exponent = 1000;
  EXPECT_NEAR(queue_us(3, 4, rates), 4, 1e-9);
  LayerWork layer;
  layer.kernels = 10, layer.collectives = 2;
  rates.launch_us = 5, rates.collective_launch_us = 3, rates.collective_wait_us = 4;
  EXPECT_DOUBLE_EQ(host_us(layer, 1, rates), 50);
  EXPECT_DOUBLE_EQ(host_us(layer, 8, rates), 50 + 2 * (3 + 4 * 3));
}

TEST(PlannerTerms, OneForwardOneBackwardIsItsBound) {
  const std::vector<StageCost> stages{{10, 20}, {10, 20}, {15, 30}};
  for (const int64_t micro_batches : {1, 2, 3, 8, 12, 13, 15, 40}) {
    const PipelineCost bound = pipeline_bound(ScheduleKind::one_f_one_b, 1, stages, micro_batches, 2);
    const PipelineCost simulated = pipeline_simulated(ScheduleKind::one_f_one_b, 1, stages, micro_batches, 2);
    EXPECT_NEAR(simulated.makespan_us, bound.makespan_us, 1e-6) << micro_batches;
    EXPECT_NEAR(simulated.makespan_us, 60 + 45.0 * static_cast<double>(micro_batches) + 8, 1e-6) << micro_batches;
    EXPECT_EQ(simulated.busiest, 2);
  }
}

TEST(PlannerTerms, LongPipelinesContinueAsSimulated) {
  const std::vector<StageCost> stages{{3, 8, 4}, {5, 6, 3}, {4, 10, 5}, {2, 8, 4}};
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zb_h1}) {
    PipelineTimes times;
    times.transfer_us = 1;
    for (const StageCost& s : stages) times.stages.push_back({s.forward_us, s.backward_us / 2, s.backward_us / 2});
    for (const int micro_batches : {16, 21, 59, 60, 62})
      EXPECT_NEAR(pipeline_simulated(kind, 1, stages, micro_batches, 1).makespan_us,
                  simulate(make_schedule(kind, 4, micro_batches), times).makespan_us, 1e-6)
          << to_string(kind) << ", " << micro_batches;
  }
}

TEST(PlannerTerms, TheLastBucketIsExposed) {
  Rates rates = simple_rates();
  rates.interference = 0.1;
  const Overlap all = overlap_of(100, 1000, 4, rates);
  EXPECT_DOUBLE_EQ(all.exposed_us, 25);
  EXPECT_DOUBLE_EQ(all.slowed_us, 7.5);
  EXPECT_DOUBLE_EQ(overlap_of(100, 1000, 1, rates).exposed_us, 100);
  EXPECT_DOUBLE_EQ(overlap_of(100, 40, 4, rates).exposed_us, 70) << "backward is too short";
}

TEST(PlannerTerms, BucketsAreSentWhenTheirLastGradientIsComplete) {
  Rates rates = simple_rates();
  rates.interference = 0.5;
  // Backward of three layers, the last first: 100 us each. Buckets hold the last two, and the first.
  std::vector<GradientTime> layers{{100, 50, 4}, {100, 50, 2, 2}};
  GradientBuckets buckets{4, [](double parameters) { return 10 + 20 * parameters; }, 0};
  Overlap overlap = overlap_of(layers, buckets, rates);
  EXPECT_DOUBLE_EQ(overlap.exposed_us, 90) << "the first bucket is sent from 200 to 290, the second until 390";
  EXPECT_DOUBLE_EQ(overlap.slowed_us, 0.5 * 90);
  buckets.update_us_per_parameter = 5;
  EXPECT_DOUBLE_EQ(overlap_of(layers, buckets, rates).exposed_us, 70) << "the first bucket's update is hidden";
  buckets.update_us_per_parameter = 0;
  layers[0].parameters = 8;
  EXPECT_DOUBLE_EQ(overlap_of(layers, buckets, rates).exposed_us, 170) << "a layer is one piece";
  buckets.by_layer = true;
  EXPECT_DOUBLE_EQ(overlap_of(layers, buckets, rates).exposed_us, 170) << "others are sent before";
  buckets.by_layer = false;
  layers[0].by_pieces = true;
  EXPECT_DOUBLE_EQ(overlap_of(layers, buckets, rates).exposed_us, 170) << "its first piece waits for the bucket";
  buckets.weights_last = true;
  // Gradients of inputs until 150; those of weights: the first layer's pieces at 175 and 200, then the others.
  EXPECT_DOUBLE_EQ(overlap_of(layers, buckets, rates).exposed_us, 175 + 3 * 90 - 300);
}

TEST(PlannerTerms, OperandsOfProductsTakeTime) {
  Rates rates = simple_rates();
  rates.gemm_gbps = 100;
  // [1000, 1000] x [1000, 1000]: 20 us of FLOP, three matrices of 4 MB at 100 GB/s.
  EXPECT_DOUBLE_EQ(gemm_us({1000, 1000, 1000}, rates), 20 + 120);
  GemmWork steps{1000, 1000, 1000};
  steps.count = 5;
  EXPECT_DOUBLE_EQ(gemm_step_us(steps, true, rates), 5 * gemm_step_us({1000, 1000, 1000}, true, rates));
}

TEST(PlannerTerms, RowsOfWeightsTwoPagesApartTakeMoreInForward) {
  Rates rates = simple_rates();
  const auto more = [&](double m, double k) {
    rates.alias_ps = 0;
    const double without = gemm_step_us({m, 512, k}, true, rates);
    rates.alias_ps = 1000;
    return gemm_step_us({m, 512, k}, true, rates) - without;
  };
  EXPECT_NEAR(more(16, 2048), 2048 * 512 * 1e-3, 1e-9) << "1 ns for each weight";
  EXPECT_NEAR(more(64, 4096), 4096 * 512 * 1e-3, 1e-9);
  EXPECT_EQ(more(8, 2048), 0) << "few rows of data are not worth packing weights";
  EXPECT_EQ(more(64, 1024), 0);
}

TEST(PlannerTerms, WhatExceedsTheCacheIsSlower) {
  Rates rates = simple_rates();
  rates.gemm_gbps = 100, rates.cache_mb = 10, rates.spill = 4, rates.stream_spill = 2;
  EXPECT_DOUBLE_EQ(spilled(rates, 10e6).gemm_gbps, 100);
  const Rates weights = spilled(rates, 20e6), activations = streamed(rates, 20e6);
  EXPECT_DOUBLE_EQ(weights.gemm_gbps, 100.0 / 3) << "half of the bytes, each five times as long";
  EXPECT_DOUBLE_EQ(weights.optimizer_ps, 40);
  EXPECT_DOUBLE_EQ(activations.memory_gbps, 500) << "half of the bytes, each three times as long";
  EXPECT_DOUBLE_EQ(activations.gemm_gbps, 50);
  EXPECT_DOUBLE_EQ(weights.gemm_tflops, rates.gemm_tflops);
  rates.cache_mb = 0;
  EXPECT_DOUBLE_EQ(streamed(rates, 20e6).memory_gbps, 1000);
}

TEST(PlannerTerms, DevicesWithoutACoreWait) {
  Rates rates = simple_rates();
  rates.crowd_us = 30;
  EXPECT_EQ(crowd_us(8, rates), 0) << "devices have their own";
  rates.shared_cores = 2;
  EXPECT_EQ(crowd_us(2, rates), 0);
  EXPECT_EQ(crowd_us(4, rates), 60);
  EXPECT_EQ(oversubscription(4, rates), 2);
}

TEST(PlannerTerms, DevicesShareCores) {
  Rates rates = simple_rates();
  rates.sharing = 0.1, rates.shared_cores = 2;
  EXPECT_DOUBLE_EQ(sharing_factor(1, rates), 1);
  EXPECT_DOUBLE_EQ(sharing_factor(2, rates), 1.1);
  EXPECT_DOUBLE_EQ(sharing_factor(4, rates), 2 * 1.1) << "two at a time";
  rates.shared_cores = 0;
  EXPECT_DOUBLE_EQ(sharing_factor(4, rates), 1.3);
}

TEST(PlannerTerms, RanksOfAPipelineShareCoresWhenTheyWorkAtOnce) {
  Rates rates = simple_rates();
  rates.sharing = 0, rates.shared_cores = 2;
  EXPECT_DOUBLE_EQ(pipeline_sharing(4, 1, 1, rates), 2) << "all at once";
  EXPECT_DOUBLE_EQ(pipeline_sharing(2, 1, 0.5, rates), 1) << "never more than cores";
  // Of four ranks at work half of the time, three are in 4 of 15 cases and four in 1.
  EXPECT_NEAR(pipeline_sharing(4, 1, 0.5, rates), (10 * 1 + 4 * 1.5 + 1 * 2) / 15.0, 1e-12);
  EXPECT_NEAR(pipeline_sharing(4, 1, 1e-9, rates), 1, 1e-6) << "hardly ever two";
}

TEST(PlannerTerms, AtMostAsManyRanksWorkAsThereAreCores) {
  Rates rates = simple_rates();
  rates.sharing = 0, rates.shared_cores = 2;
  EXPECT_EQ(pipeline_slowdowns(4, 1, rates), (std::vector<double>{1, 1, 1.5, 2}));
  EXPECT_EQ(pipeline_slowdowns(3, 2, rates), (std::vector<double>{1, 2, 3})) << "a rank has both cores";
  rates.shared_cores = 0;
  EXPECT_EQ(pipeline_slowdowns(3, 2, rates), (std::vector<double>{1, 1, 1}));
  // 16 forwards of 1 us, of which the first and the last have a core for themselves; backward takes twice as long.
  const std::vector<StageCost> stages{{1, 2}, {1, 2}, {1, 2}, {1, 2}};
  const PipelineCost cost = pipeline_simulated(ScheduleKind::gpipe, 1, stages, 4, 0, {1, 1, 1.5, 2});
  EXPECT_GE(cost.makespan_us, 3 * (2 + 14 / 2.0));
  EXPECT_LE(cost.makespan_us, 1.1 * 3 * (2 + 14 / 2.0));
  EXPECT_GT(cost.slowdown, 1);
  EXPECT_NEAR(cost.slowdown * 12 + cost.bubble_us, cost.makespan_us, 1e-9);
}

TEST(PlannerTerms, OnlyWeightGradientsComputedByThemselvesFillBubbles) {
  const auto makespan = [](ScheduleKind kind, double weight_us) {
    const std::vector<StageCost> stages(4, StageCost{1, 2, weight_us});
    return pipeline_simulated(kind, 1, stages, 8, 0).makespan_us;
  };
  EXPECT_DOUBLE_EQ(makespan(ScheduleKind::zb_h1, 0), makespan(ScheduleKind::one_f_one_b, 0)) << "(p - 1) (F + B)";
  EXPECT_DOUBLE_EQ(makespan(ScheduleKind::zb_h1, 1), 8 * 3 + 3 * 1) << "(p - 1) (F + B - W)";
  EXPECT_DOUBLE_EQ(makespan(ScheduleKind::one_f_one_b, 1), 8 * 3 + 3 * 3);
  for (const double weight_us : {0.0, 0.5, 1.0}) {
    const std::vector<StageCost> ranks(4, StageCost{1, 2, weight_us});
    EXPECT_NEAR(pipeline_bound(ScheduleKind::zb_h1, 1, ranks, 8, 0).makespan_us,
                makespan(ScheduleKind::zb_h1, weight_us), 1e-9);
  }
}

TEST(PlannerTerms, StagesOfOneRankAreSimulatedApart) {
  const std::vector<StageCost> even{{4, 8}, {4, 8}, {4, 8}, {4, 8}}, odd{{1, 2}, {4, 8}, {4, 8}, {7, 14}};
  const PipelineCost same = pipeline_simulated(ScheduleKind::zb_v, 2, even, 4, 0),
                     other = pipeline_simulated(ScheduleKind::zb_v, 2, odd, 4, 0);
  EXPECT_GE(same.makespan_us, 4 * 24.0) << "a rank's own work";
  EXPECT_GT(other.makespan_us, same.makespan_us) << "equal ranks, unequal stages";
}

TEST(PlannerTerms, GroupsOverNodesShareTheNetwork) {
  Rates rates = simple_rates();
  const GroupPath within{5, 200};
  const auto gbps = [&](int devices, int stride) { return path_of(devices, stride, within, rates).gbps; };
  EXPECT_EQ(gbps(64, 8), 200) << "one node";
  rates.node_devices = 8, rates.net_gbps = 100, rates.net_us = 10;
  EXPECT_EQ(gbps(8, 1), 200);
  EXPECT_EQ(gbps(16, 1), 100) << "a ring of two whole nodes";
  EXPECT_EQ(gbps(32, 2), 50) << "two groups beside each other";
  EXPECT_EQ(gbps(32, 8), 12.5) << "eight";
  EXPECT_EQ(gbps(2, 64), 12.5);
  EXPECT_EQ(path_of(16, 1, within, rates).alpha_us, 15);
  EXPECT_EQ(transfer_path(4, 8, within, rates).gbps, 200);
  EXPECT_EQ(transfer_path(4, 16, within, rates).gbps, 25);
  EXPECT_EQ(transfer_path(64, 512, within, rates).gbps, 12.5);
}

}  // namespace
}  // namespace amdahl
