// Pages of predictions beside measurements: what follows from the measured plans, and tables that fit a terminal.
#include "report/plan/measured_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "page_checks.h"
#include "report/common/aligned_table.h"
#include "report/page/text_page.h"

namespace amdahl {
namespace {

using testing::HasSubstr;

void expect_fits(const Page& page) {
  for (const size_t width : {80, 120}) {
    const std::string text = text_page(page, {static_cast<int>(width)});
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
      EXPECT_LE(display_width(std::string_view(text).substr(at, text.find('\n', at) - at)), width) << text;
  }
}

Record pair_of(const char* plan, double predicted_us, const std::vector<double>& measured_us, bool random) {
  Record record;
  record.kind = "plan-verification";
  record.provenance.device_kind = "cpu-virtual";
  record.axes = {{"model", std::string("medium")},
                 {"global_batch", int64_t{256}},
                 {"devices", int64_t{2}},
                 {"plan", std::string(plan)},
                 {"random", random},
                 {"math", std::string("fp32")}};
  const double measured = measured_us[measured_us.size() / 2];
  record.series = {{"step_time", "us", measured_us},
                   {"predicted_step", "us", {predicted_us}},
                   {"predicted_low", "us", {0.8 * predicted_us}},
                   {"predicted_high", "us", {1.2 * predicted_us}},
                   {"optimizer", "us", {0.1 * measured}},
                   {"predicted optimizer", "us", {0.2 * predicted_us}},
                   {"compute and launches", "us", {0.9 * measured}},
                   {"predicted compute and launches", "us", {0.8 * predicted_us}}};
  return record;
}

std::vector<Record> pairs() {
  return {pair_of("dp2", 90, {99, 100, 400}, false), pair_of("dp1", 100, {79, 80, 81}, false),
          pair_of("dp2,m64", 300, {199, 200, 201}, true)};
}

TEST(MeasuredPage, VerificationFollowsFromItsRecords) {
  const VerifyOutcome found = verification_in(pairs());
  ASSERT_EQ(found.plans.size(), 3u);
  EXPECT_EQ(found.plans[0].measured_us, 100);
  EXPECT_TRUE(found.plans[0].inside && found.plans[1].inside);
  EXPECT_TRUE(found.plans[2].random && !found.plans[2].inside);
  EXPECT_NEAR(found.median_error, 0.25, 1e-9) << "of 0.1, 0.25 and 0.5";
  EXPECT_NEAR(found.loss_of_choice, 0.25, 1e-9) << "dp2 was predicted to be best, dp1 is";
  ASSERT_EQ(found.terms.size(), 2u);
  EXPECT_EQ(found.terms[0].name, "optimizer");
  EXPECT_NEAR(found.terms[0].bias, (0.08 + 0.15 + 0.2) / 3, 1e-9);
}

TEST(MeasuredPage, VerificationShowsPairsAndParts) {
  const Page page = verification_page(pairs());
  test::expect_sound(page);
  EXPECT_THAT(page.verdict, HasSubstr("3 plans: median error 25.0 %, 2 inside the 95 % interval"));
  const Chart* parts = test::find_chart(page, "parts");
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->table.rows.size(), 3u * 2 * 2) << "two parts of each, predicted and measured";
  EXPECT_THAT(std::get<std::string>(parts->table.rows[0][0]), HasSubstr("dp1, measured")) << "the fastest is first";
  EXPECT_THAT(text_page(page), HasSubstr("-10.0 %"));
  expect_fits(page);
  EXPECT_THAT(text_page(verification_page(std::vector<Record>{})), HasSubstr("No plan has"));
}

TEST(MeasuredPage, CalibrationFitsTheTerminal) {
  CalibrationOutcome outcome;
  outcome.calibration.device_name = "a CPU", outcome.calibration.math = "fp32", outcome.machine_file = "m.json";
  outcome.calibration.constants = {{"gemm_tflops", 0.05, "TFLOP/s", ConstantOrigin::fitted, ""}};
  for (const char* model : {"mlp-50-320-160-80", "transformer-of-several-blocks"})
    for (const double us : {100.0, 2000.0})
      outcome.steps.push_back({model, "pp2,m8,1f1b", 256, us, 1.5 * us, {us, 2 * us}, {}});
  outcome.left_out_model = {"model left out", 4, 0.5, 0.5, 0.5, 0.5};
  const Page page = calibration_page(outcome, "{}");
  test::expect_sound(page);
  EXPECT_THAT(page.verdict, HasSubstr("50.0 % on average and 50.0 % at most, over 4 steps"));
  const std::string text = text_page(page);
  for (const char* words : {"machine file: m.json", "+50.0 %", "150 us", "3 ms", "gemm_tflops"})
    EXPECT_THAT(text, HasSubstr(words));
  expect_fits(page);
}

}  // namespace
}  // namespace amdahl
