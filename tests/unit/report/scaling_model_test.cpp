// Steps on several devices, predicted from those on one: values computed by hand.
#include "planner/scaling_model.h"

#include <gtest/gtest.h>

#include "report/study/page.h"
#include "report/study/summary.h"
#include "report_records.h"

namespace amdahl {
namespace {

const LinkModel kLink{"test", 100, 0, 0.5, 4, 1, Origin::measured, Origin::measured, "a rate", "a latency"};

StudySummary one_gpu() {
  std::vector<Record> records;
  for (const auto& [batch, us] : {std::pair{int64_t{16}, 100.0}, {int64_t{64}, 160.0}, {int64_t{128}, 400.0}})
    test::add_cell(records, {.num_parameters = 1'000'000, .global_batch = batch, .step_us = us, .noise = 0});
  return summarise_study(records);
}

const ScalingPrediction& at(const ScalingOutlook& outlook, int64_t batch, int64_t devices) {
  for (const ScalingPrediction& p : outlook.predictions)
    if (p.single.global_batch == batch && p.devices == devices) return p;
  throw std::out_of_range("no prediction");
}

TEST(LinkModel, RingAllReduceIsLatencyAndBytes) {
  EXPECT_DOUBLE_EQ(kLink.latency_us(2), 6);
  EXPECT_DOUBLE_EQ(kLink.latency_us(4), 10);
  EXPECT_DOUBLE_EQ(kLink.transfer_us(1e6, 2), 20);  // 1 MB at 50 GB/s
  EXPECT_DOUBLE_EQ(kLink.transfer_us(1e6, 4), 30);  // 1.5 MB
  LinkModel shared = kLink;
  shared.total_gbps = 200;
  EXPECT_DOUBLE_EQ(shared.ring_gbps(2), 50);
  EXPECT_DOUBLE_EQ(shared.ring_gbps(4), 25);
}

TEST(ScalingModel, AddsTheLinkToTheStepOfAShare) {
  const ScalingOutlook outlook = predict_scaling(one_gpu(), kLink, {.devices = {2, 3, 4}});
  const ScalingPrediction& exact = at(outlook, 128, 2);
  ASSERT_EQ(exact.terms.size(), 3u);
  EXPECT_NEAR(exact.terms[0].us, 160, 1e-9);
  EXPECT_EQ(exact.terms[0].origin, Origin::measured);
  EXPECT_NEAR(exact.terms[1].us, 6, 1e-9);
  EXPECT_NEAR(exact.terms[2].us, 80, 1e-9);  // 4 MB at 50 GB/s
  EXPECT_NEAR(exact.step_us, 246, 1e-9);
  EXPECT_NEAR(exact.speedup, 400.0 / 246, 1e-9);
  EXPECT_EQ(exact.recommendation, Recommendation::multi_device);
  const ScalingPrediction& between = at(outlook, 128, 4);  // 32 is a third of the way from 16 to 64
  EXPECT_NEAR(between.terms[0].us, 120, 1e-9);
  EXPECT_EQ(between.terms[0].origin, Origin::modelled);
  EXPECT_NEAR(at(outlook, 128, 3).terms[0].us, 100 + 60 * (43 - 16) / 48.0, 1e-9) << "the largest share of three";
  const ScalingPrediction& below = at(outlook, 16, 2);
  EXPECT_NEAR(below.terms[0].us, 100, 1e-9);
  EXPECT_EQ(below.terms[0].origin, Origin::modelled);
  EXPECT_EQ(below.recommendation, Recommendation::single_device);
}

TEST(ScalingModel, HidesBehindBackwardOnlyWhatItIsAskedTo) {
  StudySummary summary = one_gpu();
  const ScalingOutlook outlook = predict_scaling(summary, kLink, {.overlap = true});
  const ScalingPrediction& p = at(outlook, 128, 2);  // backward is 0.35 of the fake account
  ASSERT_EQ(p.terms.size(), 4u);
  EXPECT_NEAR(p.terms[3].us, -0.35 * 160, 1e-9);
  EXPECT_NEAR(p.step_us, 160 + 86 - 56, 1e-9);
  EXPECT_TRUE(outlook.notes.empty());
  for (StudyCell& cell : summary.cells) cell.account.reset();
  const ScalingOutlook without = predict_scaling(summary, kLink, {.overlap = true});
  EXPECT_NEAR(at(without, 128, 2).step_us, 246, 1e-9);
  EXPECT_EQ(without.notes.size(), 1u);
}

TEST(ScalingModel, TakesTheFastestConfigurationOfEachBatch) {
  std::vector<Record> records;
  test::add_cell(records, {.global_batch = 32, .step_us = 400});
  test::add_cell(records, {.global_batch = 64, .step_us = 400});
  test::add_cell(records, {.global_batch = 32, .step_us = 50, .launch = "graph"});
  test::add_cell(records, {.global_batch = 64, .step_us = 80, .launch = "graph", .math = "tf32"});
  const ScalingOutlook outlook = predict_scaling(summarise_study(records), kLink, {.devices = {2}, .global_batch = 64});
  ASSERT_EQ(outlook.predictions.size(), 1u);
  EXPECT_NEAR(outlook.predictions[0].single_us, 80, 1);
  EXPECT_NEAR(outlook.predictions[0].terms[0].us, 50, 1);
}

TEST(ScalingModel, SetsWhatWasMeasuredBesideIt) {
  std::vector<Record> records;
  for (const int64_t batch : {32, 64})
    test::add_cell(records, {.global_batch = batch, .step_us = 5.0 * batch, .noise = 0});
  test::add_cell(records, {.global_batch = 64, .devices = 2, .step_us = 200, .noise = 0});
  const ScalingOutlook outlook = predict_scaling(summarise_study(records), kLink, {.devices = {2}, .global_batch = 64});
  ASSERT_EQ(outlook.predictions[0].measured.size(), 1u);
  EXPECT_NEAR(outlook.predictions[0].measured[0].speedup, 1.6, 1e-9);
  EXPECT_NE(outlook_text(outlook).find("data_parallel 1.60x, step -15 %"), std::string::npos) << outlook_text(outlook);
}

TEST(ScalingModel, AnAssumedLinkIsTheFirstLine) {
  LinkModel link = kLink;
  EXPECT_EQ(outlook_text(predict_scaling(one_gpu(), link, {})).find("Predicted for data parallelism over test"), 0u);
  link.rate_origin = Origin::modelled;
  const std::string text = outlook_text(predict_scaling(one_gpu(), link, {}));
  EXPECT_EQ(text.find("Nothing was measured over test: its rate is assumed"), 0u) << text;
  EXPECT_NE(text.find("speedup [range (assumed)]"), std::string::npos) << text;
}

TEST(ScalingModel, NothingToPredictFromIsAnError) {
  EXPECT_THROW(predict_scaling(one_gpu(), kLink, {.model = "other"}), Error);
  EXPECT_THROW(predict_scaling(one_gpu(), kLink, {.global_batch = 17}), Error);
  EXPECT_THROW(predict_scaling({}, kLink, {}), Error);
}

TEST(LinkModels, MachineGivesItsSlowestUsablePair) {
  MachineSpec machine;
  const auto add = [&](int source, int destination, double measured, const std::string& quarantine = {}) {
    LinkSpec link;
    link.source = source;
    link.destination = destination;
    link.path = PathKind::nvlink;
    link.expected_gbps = 390;
    link.measured_gbps = measured;
    link.latency_us = 0.8;
    link.quarantine = quarantine;
    machine.links.push_back(link);
  };
  EXPECT_THROW(link_of_machine(machine, "m.json"), Error);
  add(0, 1, 380);
  add(1, 0, 370);
  add(0, 2, 100, "corrupts data");
  const LinkModel link = link_of_machine(machine, "m.json");
  EXPECT_DOUBLE_EQ(link.gbps, 370);
  EXPECT_DOUBLE_EQ(link.hop_us, 0.8);
  EXPECT_EQ(link.rate_origin, Origin::measured);
  for (LinkSpec& each : machine.links) each.measured_gbps = 0;
  EXPECT_DOUBLE_EQ(link_of_machine(machine, "m.json").gbps, 390);
  EXPECT_EQ(link_of_machine(machine, "m.json").rate_origin, Origin::modelled);
}

TEST(LinkModels, EveryRowSaysWhereItComesFrom) {
  ASSERT_EQ(link_models().size(), 3u);
  for (const LinkModel& link : link_models()) {
    EXPECT_GT(link.ring_gbps(2), 0) << link.name;
    EXPECT_GT(link.latency_us(2), 0) << link.name;
    EXPECT_FALSE(link.rate_source.empty() || link.latency_source.empty()) << link.name;
  }
}

}  // namespace
}  // namespace amdahl
