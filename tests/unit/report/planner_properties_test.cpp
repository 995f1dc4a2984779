// Advice against the rule written down a second time, and predictions against what must hold for any link.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "planner/advise.h"
#include "planner/scaling_model.h"

namespace amdahl {
namespace {

using Random = std::mt19937_64;

StudyComparison comparison_of(Random& random) {
  StudyComparison c;
  c.multi.model = "m";
  c.multi.num_parameters = std::vector<int64_t>{1'000'000, 1'005'000, 1'900'000, 2'100'000, 40'000'000}[random() % 5];
  c.multi.global_batch = std::vector<int64_t>{32, 64, 128, 129, 512}[random() % 5];
  c.multi.devices = 2 << random() % 3;
  c.multi.scaling = random() % 4 == 0 ? "weak" : "strong";
  c.multi.strategy = "ddp", c.multi.launch = "eager", c.multi.math = "fp32";
  c.recommendation = static_cast<Recommendation>(random() % 4);
  c.test.ratio = 1.2;
  c.test.n_first = c.test.n_second = 10;
  if (random() % 5 != 0) c.test.ci = Interval{1.0 + static_cast<double>(random() % 50) / 100, 1.6};
  if (c.recommendation == Recommendation::unclear) c.more_runs = static_cast<int64_t>(random() % 3000);
  return c;
}

// The rule of advise.h: the cells of the model and batch; else those within a factor of 2 in both, if they agree.
std::string decision_by_rule(const AdviceRequest& request, const StudySummary& summary) {
  std::vector<Recommendation> exact, near;
  for (const StudyComparison& c : summary.comparisons) {
    if (c.multi.scaling != "strong" || c.multi.devices > request.max_devices) continue;
    const auto times = [](double a, double b) { return std::max(a / b, b / a); };
    const double size = times(static_cast<double>(request.num_parameters), static_cast<double>(c.multi.num_parameters)),
                 batch = times(static_cast<double>(request.global_batch), static_cast<double>(c.multi.global_batch));
    if (size <= 1.01 && batch == 1) exact.push_back(c.recommendation);
    if (size <= 2 && batch <= 2) near.push_back(c.recommendation);
  }
  const bool is_exact = !exact.empty();
  const std::vector<Recommendation>& used = is_exact ? exact : near;
  if (used.empty()) return "unknown";
  const auto count = [&](Recommendation r) { return std::count(used.begin(), used.end(), r); };
  const auto all = static_cast<std::ptrdiff_t>(used.size());
  if (is_exact ? count(Recommendation::multi_device) > 0 : count(Recommendation::multi_device) == all) return "multi";
  if (count(Recommendation::single_device) + count(Recommendation::marginal) == all) return "single";
  return "benchmark";
}

TEST(AdviseProperties, DecidesAsTheRuleSays) {
  Random random(111);
  std::map<std::string, int> seen;
  for (int trial = 0; trial < 4000; ++trial) {
    StudySummary summary;
    summary.device_kind = "cuda";
    for (uint64_t left = random() % 5; left > 0; --left) summary.comparisons.push_back(comparison_of(random));
    const AdviceRequest request{.model = "m",
                                .num_parameters = 1'000'000,
                                .global_batch = std::vector<int64_t>{64, 128}[random() % 2],
                                .max_devices = 2 << random() % 3};
    const Advice advice = advise_measured(request, summary);
    ASSERT_EQ(advice.decision, decision_by_rule(request, summary));
    ++seen[advice.decision];
    EXPECT_FALSE(advice.reason.empty());
    // What is not known from the cell itself comes with the command that would measure it.
    const bool sure =
        advice.reason.starts_with("measured at this model size and batch") && advice.decision != "benchmark";
    EXPECT_EQ(advice.command.empty(), sure) << advice.reason;
    EXPECT_EQ(advice.modes_to_measure.empty(), sure);
    if (!sure) {
      EXPECT_NE(advice.command.find(fmt::format("{}", request.global_batch)), std::string::npos);
    }
    for (const std::string& line : advice.evidence) EXPECT_EQ(line.find("weak"), std::string::npos);
  }
  for (const char* decision : {"multi", "single", "benchmark", "unknown"}) EXPECT_GT(seen[decision], 20) << decision;
}

TEST(AdviseProperties, TheOrderOfTheRecordsDoesNotMatter) {
  Random random(112);
  for (int trial = 0; trial < 300; ++trial) {
    StudySummary summary;
    for (int i = 0; i < 4; ++i) summary.comparisons.push_back(comparison_of(random));
    const AdviceRequest request{.num_parameters = 1'000'000, .global_batch = 64, .max_devices = 8};
    const Advice one = advise_measured(request, summary);
    std::shuffle(summary.comparisons.begin(), summary.comparisons.end(), random);
    const Advice other = advise_measured(request, summary);
    EXPECT_EQ(one.decision, other.decision);
    EXPECT_EQ(one.evidence.size(), other.evidence.size());
    EXPECT_EQ(one.command, other.command);
  }
}

TEST(AdviseProperties, OtherDevicesAndMoreDevicesAreNoEvidence) {
  Random random(113);
  StudySummary summary;
  summary.device_kind = "cpu-virtual";
  StudyComparison c = comparison_of(random);
  c.multi.num_parameters = 1'000'000, c.multi.global_batch = 64, c.multi.scaling = "strong", c.multi.devices = 4;
  c.recommendation = Recommendation::multi_device;
  summary.comparisons = {c};
  AdviceRequest request{.num_parameters = 1'000'000, .global_batch = 64, .max_devices = 4};
  EXPECT_EQ(advise_measured(request, summary).decision, "multi");
  request.device_kind = "cuda";
  EXPECT_EQ(advise_measured(request, summary).decision, "unknown");
  request.device_kind = "cpu-virtual";
  EXPECT_EQ(advise_measured(request, summary).decision, "multi");
  request.max_devices = 2;
  EXPECT_EQ(advise_measured(request, summary).decision, "unknown");
  request.max_devices = 8, request.num_parameters = 0;
  EXPECT_EQ(advise_measured(request, summary).decision, "unknown") << "a size of nothing is near nothing";
}

TEST(PublishedProperties, GrowsWithTheModelAndIsNeverSilent) {
  Random random(114);
  const std::vector<std::string> order{"single", "evaluate", "benchmark", "multi"};
  const auto rank = [&](const std::string& decision) {
    return std::find(order.begin(), order.end(), decision) - order.begin();
  };
  for (int trial = 0; trial < 1000; ++trial) {
    const auto batch = static_cast<int64_t>(1 + random() % 300), size = static_cast<int64_t>(random() % 20'000'000);
    const Advice advice = advise_published({.num_parameters = size, .global_batch = batch});
    EXPECT_LT(rank(advice.decision), 4) << advice.decision;
    EXPECT_FALSE(advice.evidence.empty());
    const Advice larger =
        advise_published({.num_parameters = size, .global_batch = batch + 1 + static_cast<int64_t>(random() % 300)});
    EXPECT_GE(rank(larger.decision), rank(advice.decision)) << "a larger batch never speaks for fewer devices";
  }
}

TEST(LinkModelProperties, CostGrowsWithBytesAndDevices) {
  Random random(115);
  std::uniform_real_distribution<double> uniform(0.1, 10);
  for (int trial = 0; trial < 300; ++trial) {
    LinkModel link;
    link.gbps = 10 * uniform(random), link.total_gbps = random() % 2 == 0 ? 0 : 20 * uniform(random);
    link.ring_efficiency = uniform(random) / 10, link.base_us = uniform(random), link.hop_us = uniform(random);
    const double bytes = 1e6 * uniform(random);
    EXPECT_EQ(link.transfer_us(bytes, 1), 0) << "one device sends nothing";
    EXPECT_EQ(link.latency_us(1), link.base_us);
    for (int64_t n = 2; n < 20; ++n) {
      EXPECT_GE(link.transfer_us(bytes, n + 1), link.transfer_us(bytes, n));
      EXPECT_GT(link.latency_us(n + 1), link.latency_us(n));
      EXPECT_NEAR(link.transfer_us(2 * bytes, n), 2 * link.transfer_us(bytes, n), 1e-9 * bytes);
      EXPECT_LE(link.ring_gbps(n), link.gbps * link.ring_efficiency * (1 + 1e-12));
      if (link.total_gbps > 0) {
        EXPECT_LE(link.ring_gbps(n) * static_cast<double>(n), link.total_gbps * (1 + 1e-12));
      }
    }
  }
}

StudyCell one_gpu_cell(int64_t batch, double us) {
  StudyCell cell;
  cell.key.model = "m", cell.key.num_parameters = 1'000'000, cell.key.global_batch = batch;
  cell.key.scaling = "strong", cell.key.math = "fp32", cell.key.launch = "eager";
  cell.step_time_us.n = 10, cell.step_time_us.median = us;
  cell.step_time_us.median_ci = Interval{us * 0.99, us * 1.01};
  return cell;
}

TEST(ScalingModelProperties, TermsAddUpAndAFasterLinkHelps) {
  Random random(116);
  std::uniform_real_distribution<double> uniform(1, 100);
  for (int trial = 0; trial < 200; ++trial) {
    StudySummary summary;
    summary.device_kind = "cuda";
    double us = uniform(random);
    for (int64_t batch = 16; batch <= 1024; batch *= 4)
      summary.cells.push_back(one_gpu_cell(batch, us += uniform(random)));
    std::shuffle(summary.cells.begin(), summary.cells.end(), random);
    LinkModel slow;
    slow.name = "slow", slow.gbps = uniform(random), slow.base_us = uniform(random), slow.hop_us = 1;
    LinkModel fast = slow;
    fast.gbps *= 2, fast.base_us /= 2;
    const ScalingQuestion question{.devices = {2, 3, 8}};
    const ScalingOutlook one = predict_scaling(summary, slow, question), two = predict_scaling(summary, fast, question);
    ASSERT_EQ(one.predictions.size(), 12u);
    for (size_t i = 0; i < one.predictions.size(); ++i) {
      const ScalingPrediction& p = one.predictions[i];
      double sum = 0;
      for (const PredictedTerm& term : p.terms) sum += term.us;
      EXPECT_NEAR(p.step_us, sum, 1e-9);
      EXPECT_NEAR(p.speedup, p.single_us / p.step_us, 1e-9);
      EXPECT_GT(two.predictions[i].speedup, p.speedup);
      EXPECT_LT(p.speedup, 1 / (p.terms[0].us / p.single_us) + 1e-9) << "never more than without communication";
      EXPECT_LE(p.terms[0].us, p.single_us + 1e-9) << "a share takes no longer than the whole";
    }
  }
}

TEST(ScalingModelProperties, NoDeviceIsWithoutARow) {
  StudySummary summary;
  summary.cells = {one_gpu_cell(4, 10), one_gpu_cell(64, 20)};
  const ScalingOutlook outlook = predict_scaling(summary, link_models().front(), {.devices = {2, 4, 8, 64}});
  for (const ScalingPrediction& p : outlook.predictions) EXPECT_LE(p.devices, p.single.global_batch);
  EXPECT_EQ(outlook.predictions.size(), 2u + 4u);
  EXPECT_THROW(predict_scaling(summary, link_models().front(), {.devices = {65}}), Error);
  EXPECT_THROW(predict_scaling(summary, link_models().front(), {.devices = {2}, .model = "another"}), Error);
  EXPECT_THROW(predict_scaling({}, link_models().front(), {}), Error);
}

}  // namespace
}  // namespace amdahl
