// Predictions of measured iterations, each layout left out of the fit, within the bars that docs/planner.md states.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "amdahl/planner.h"
#include "planner/validate.h"
#include "stats/least_squares.h"
#include "stats/line_fit.h"

namespace amdahl {
namespace {

std::string measured_text(const char* name = "measured_a100.csv") {
  std::ifstream file(std::string(AMDAHL_SOURCE_DIR) + "/tests/data/planner/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(LeastSquares, FindsTheParametersOfACurve) {
  const auto residuals = [](const std::vector<double>& p) {
    std::vector<double> all;
    for (double x = 0; x < 4; x += 0.25)
      all.push_back(p[0] * std::exp(-p[1] * x) + p[2] - (3 * std::exp(-0.7 * x) + 0.5));
    return all;
  };
  const LeastSquares fit = least_squares(residuals, {1, 1, 0});
  EXPECT_NEAR(fit.parameters[0], 3, 1e-4);
  EXPECT_NEAR(fit.parameters[1], 0.7, 1e-4);
  EXPECT_NEAR(fit.parameters[2], 0.5, 1e-4);
  EXPECT_LT(fit.cost, 1e-8);
}

TEST(LeastSquares, SolvesAndRefuses) {
  const std::vector<double> x = solve_positive_definite({4, 2, 2, 3}, {10, 8});
  ASSERT_EQ(x.size(), 2u);
  EXPECT_NEAR(x[0], 1.75, 1e-12);
  EXPECT_NEAR(x[1], 1.5, 1e-12);
  EXPECT_TRUE(solve_positive_definite({1, 2, 2, 1}, {1, 1}).empty());
  EXPECT_NEAR(softened(0.01), 0.01, 1e-5);
  EXPECT_NEAR(softened(-100) * softened(-100), 200, 3);
  EXPECT_NEAR(faded(-100) * faded(-100), std::log(10001), 1e-9);
  EXPECT_NEAR(faded(0.01), 0.01, 1e-5);
}

TEST(RankCorrelation, SharesRanksOfEqualValues) {
  const std::vector<double> a{1, 2, 2, 5}, b{10, 20, 30, 40}, reversed{4, 3, 2, 1};
  EXPECT_EQ(ranks_of(a), (std::vector<double>{1, 2.5, 2.5, 4}));
  EXPECT_DOUBLE_EQ(spearman(b, b), 1);
  EXPECT_DOUBLE_EQ(spearman(b, reversed), -1);
  EXPECT_NEAR(spearman(a, b), 4.5 / std::sqrt(4.5 * 5), 1e-12);
  EXPECT_DOUBLE_EQ(spearman(std::vector<double>{1, 1}, std::vector<double>{1, 2}), 0);
}

TEST(PlannerValidation, PredictsLayoutsThatWereLeftOut) {
  const std::vector<MeasuredIteration> rows = parse_iterations(measured_text(), "measured_a100.csv");
  ASSERT_EQ(rows.size(), 1040u);
  const PlanValidation v = validate_planner(rows, {}, false, [](int, int, const std::string&) {});
  EXPECT_LE(v.fitted_constants, 30);
  EXPECT_LE(v.left_out_layout.mean, 0.06);
  EXPECT_GE(v.rank_by_replica_batch, 0.9);
  EXPECT_GE(v.rank_by_global_batch, 0.9);
  EXPECT_GE(v.coverage, 0.90);
  EXPECT_LE(v.coverage, 0.99);
  EXPECT_LE(v.bound_to_simulation, 0.01);
  EXPECT_EQ(v.layouts.size(), 13u);
  for (const ErrorSummary& baseline : v.baselines)
    EXPECT_GT(baseline.mean, 5 * v.left_out_layout.mean) << baseline.name;
  EXPECT_NE(to_text(v).find("layout left out"), std::string::npos);
}

TEST(PlannerValidation, PredictsLayoutsOfSeveralNodes) {
  const char* const name = "measured_a100_multi.csv";
  const std::vector<MeasuredIteration> rows = parse_iterations(measured_text(name), name);
  ASSERT_EQ(rows.size(), 84u);
  const PlanValidation v = validate_planner(rows, {}, true, [](int, int, const std::string&) {});
  EXPECT_EQ(v.recompute, "");
  EXPECT_LE(v.left_out_layout.mean, 0.085);
  EXPECT_GE(v.coverage, 0.90);
  for (const ErrorSummary& size : v.sizes)
    if (size.name == "tp 16" || size.name == "hidden 3072") {
      EXPECT_LE(size.mean, 0.12) << size.name;
    }
  // Four adapters of 200 Gb/s, to which no row was told.
  EXPECT_NEAR(v.calibration.find("net_gbps")->value, 100, 15);
}

TEST(PlannerValidation, RecomputationThatAFileDoesNotNameIsAssumedAndSaid) {
  const char* const name = "measured_a100_multi.csv";
  std::vector<MeasuredIteration> rows = parse_iterations(measured_text(name), name);
  for (MeasuredIteration& row : rows) row.recompute = -1;
  const PlanValidation v = validate_planner(rows, {}, false, [](int, int, const std::string&) {});
  EXPECT_NE(v.recompute.find("no column recompute"), std::string::npos) << v.recompute;
}

TEST(PlannerValidation, NamesWhatIsWrongInAFile) {
  const std::string header = "gpus,global_batch,micro_batch,hidden,heads,layers,sequence,tp,dp,pp,iteration_ms\n";
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      parse_iterations(text, "f.csv");
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::data_corrupt);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(header + "2,4,1,1024,16,12,1024,1,2,1,90.5\n"), "accepted");
  EXPECT_EQ(refusal("recompute," + header + "0,2,4,1,1024,16,12,1024,1,2,1,90.5\n"), "accepted");
  EXPECT_EQ(refusal("gpus," + header), "f.csv:1: 2 columns 'gpus'");
  EXPECT_EQ(refusal("gpus,tp\n1,1\n"), "f.csv:1: 0 columns 'global_batch'");
  EXPECT_EQ(refusal(header), "f.csv:1: no rows");
  EXPECT_EQ(refusal("gpus,batch\n1,2\n"), "f.csv:1: unknown column 'batch'");
  EXPECT_EQ(refusal(header + "2,4,1,1024,16,12,1024,1,2,1\n"), "f.csv:2: 10 cells of 11");
  EXPECT_EQ(refusal(header + "2,4,1,1024,16,12,1024,1,2,1,nan\n"), "f.csv:2: 'nan' in column iteration_ms");
  EXPECT_EQ(refusal(header + "2,4,0,1024,16,12,1024,1,2,1,9\n"), "f.csv:2: '0' in column micro_batch");
  EXPECT_EQ(refusal(header + "4,4,1,1024,16,12,1024,1,2,1,9\n"), "f.csv:2: tp 1 x dp 2 x pp 1 is not 4 GPUs");
  EXPECT_EQ(refusal(header + "2,3,1,1024,16,12,1024,1,2,1,9\n"),
            "f.csv:2: global batch 3 is not a multiple of dp 2 x micro-batch 1");
}

}  // namespace
}  // namespace amdahl
