// The serial fraction of Amdahl's law, against values computed by hand.
#include "stats/serial_fraction.h"

#include <gtest/gtest.h>

#include <vector>

#include "report/study/page.h"
#include "report/study/serial_fraction.h"
#include "report/study/summary.h"
#include "report_records.h"
#include "spec/json.h"
#include "stats/estimate.h"
#include "study_texts.h"

namespace amdahl {
namespace {

TEST(KarpFlatt, IsTheFractionThatExplainsASpeedup) {
  EXPECT_DOUBLE_EQ(karp_flatt(2, 2), 0);              // perfect
  EXPECT_DOUBLE_EQ(karp_flatt(1, 2), 1);              // nothing gained
  EXPECT_NEAR(karp_flatt(1.5, 2), 1.0 / 3, 1e-12);    // (2/3 - 1/2) / (1/2)
  EXPECT_NEAR(karp_flatt(1.8, 2), 1.0 / 9, 1e-12);    // (5/9 - 1/2) / (1/2)
  EXPECT_NEAR(karp_flatt(2.5, 4), 0.2, 1e-12);        // (0.4 - 0.25) / 0.75
  EXPECT_NEAR(karp_flatt(0.5, 2), 3, 1e-12);          // slower than one device
  EXPECT_NEAR(karp_flatt(4.5, 4), -1.0 / 27, 1e-12);  // faster than devices: caches
}

double fitted(double on_two, double on_four) {
  const std::vector<StepSamples> several{{2, {1000 / on_two, {}}, {on_two, {}}},
                                         {4, {1000 / on_four, {}}, {on_four, {}}}};
  return serial_fraction({1000, {}}, several).fitted;
}

TEST(AmdahlFit, IsTheLeastSquaresFractionOverTheCounts) {
  // One f explains both: 1/S = 1/3 + (2/3)/n.
  EXPECT_NEAR(fitted(1.5, 2), 1.0 / 3, 1e-12);
  // x = 1/2, 3/4; 1/S - 1/n = 1/18, 0.15: (1/36 + 0.1125) / (0.25 + 0.5625).
  EXPECT_NEAR(fitted(1.8, 2.5), (1.0 / 36 + 0.1125) / 0.8125, 1e-12);
}

std::vector<double> around(double us, uint64_t stream) {
  std::vector<double> samples;
  for (uint32_t i = 0; i < 10; ++i)
    samples.push_back(us * (1 + 0.004 * (philox(stream, i, 0, 0, 0).v[0] / 4294967296.0 - 0.5)));
  return samples;
}

SerialFraction of_speedups(double on_two, double on_four) {
  const std::vector<double> one = around(1000, 1), two = around(1000 / on_two, 2), four = around(1000 / on_four, 3);
  const auto times = {estimate_of(one), estimate_of(two), estimate_of(four)};
  const Estimate* t = times.begin();
  return serial_fraction(t[0],
                         std::vector<StepSamples>{{2, t[1], ratio_of(t[0], t[1])}, {4, t[2], ratio_of(t[0], t[2])}});
}

TEST(SerialFraction, SaysWhetherItGrowsStaysOrFalls) {
  const SerialFraction grows = of_speedups(1.8, 2.5);
  EXPECT_EQ(grows.trend, SerialTrend::grows);
  ASSERT_EQ(grows.points.size(), 2u);
  EXPECT_NEAR(grows.points[0].fraction, 1.0 / 9, 0.01);
  EXPECT_NEAR(grows.points[1].fraction, 0.2, 0.01);
  EXPECT_NEAR(grows.growth, 0.2 - 1.0 / 9, 0.01);
  ASSERT_TRUE(grows.fitted_ci && grows.points[0].ci);
  EXPECT_LT(grows.fitted_ci->low, (1.0 / 36 + 0.1125) / 0.8125);
  EXPECT_GT(grows.fitted_ci->high, (1.0 / 36 + 0.1125) / 0.8125);
  EXPECT_EQ(of_speedups(1.5, 2).trend, SerialTrend::constant);
  EXPECT_EQ(of_speedups(1.2, 2.5).trend, SerialTrend::falls);
}

TEST(SerialFraction, OneRunEachHasNoIntervalAndNoTrend) {
  const Estimate one{1000, {}}, two{600, {}}, four{400, {}};
  const SerialFraction fraction =
      serial_fraction(one, std::vector<StepSamples>{{2, two, ratio_of(one, two)}, {4, four, ratio_of(one, four)}});
  EXPECT_FALSE(fraction.fitted_ci || fraction.growth_ci || fraction.points[0].ci);
  EXPECT_EQ(fraction.trend, SerialTrend::unclear);
}

std::vector<Record> counts(std::initializer_list<int64_t> devices, const std::string& scaling = "strong") {
  std::vector<Record> records;
  for (const int64_t n : devices)
    test::add_cell(records, {.global_batch = 64,
                             .devices = n,
                             .step_us = n == 1   ? 1000.0
                                        : n == 2 ? 1000 / 1.8
                                                 : 1000 / 2.5,
                             .num_runs = 10,
                             .scaling = scaling,
                             .noise = 0.002});
  return records;
}

TEST(SerialFractionOfAStudy, NeedsThreeCountsAndStrongScaling) {
  EXPECT_TRUE(summarise_study(counts({1, 2})).serial_fractions.empty());
  EXPECT_TRUE(summarise_study(counts({1, 2, 4}, "weak")).serial_fractions.empty());
  const StudySummary summary = summarise_study(counts({1, 2, 4}));
  ASSERT_EQ(summary.serial_fractions.size(), 1u);
  EXPECT_EQ(summary.serial_fractions[0].cell.devices, 4);
  EXPECT_EQ(summary.serial_fractions[0].trend, SerialTrend::grows);
}

TEST(SerialFractionOfAStudy, IsInTextMarkdownPageAndJson) {
  const std::vector<Record> records = counts({1, 2, 4});
  const StudySummary summary = summarise_study(records);
  const std::string words = "overhead that grows with the devices, such as communication";
  EXPECT_NE(test::study_text(summary).find(words), std::string::npos) << test::study_text(summary);
  EXPECT_NE(test::study_markdown(summary).find("## Serial fraction (Karp-Flatt, Amdahl)"), std::string::npos);
  const Page page = study_page(summary, records);
  const auto section = std::find_if(page.sections.begin(), page.sections.end(),
                                    [](const PageSection& s) { return s.anchor == "serial-fraction"; });
  ASSERT_NE(section, page.sections.end());
  EXPECT_EQ(section->tables.at(0).table.rows.size(), 2u);
  const StudySummary again = summary_from_json(summary_to_json(summary), "test");
  ASSERT_EQ(again.serial_fractions.size(), 1u);
  EXPECT_EQ(again.serial_fractions[0].points, summary.serial_fractions[0].points);
  EXPECT_EQ(summary_to_json(again), summary_to_json(summary));
}

}  // namespace
}  // namespace amdahl
