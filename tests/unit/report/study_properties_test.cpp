// Random studies: what the summary says against sums over the records, and what the texts say against the summary.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>

#include "base/record_values.h"
#include "errors.h"
#include "report/common/words.h"
#include "report/study/summary.h"
#include "report_records.h"
#include "spec/json.h"
#include "study_texts.h"

namespace amdahl {
namespace {

using test::FakeCell;

std::vector<Record> random_study(std::mt19937& random) {
  std::vector<Record> records;
  std::uniform_real_distribution<double> gain(0.7, 1.9);
  const int runs = 5 + static_cast<int>(random() % 7);
  uint64_t stream = random();
  for (const char* model : {"medium", "large"}) {
    if (random() % 3 == 0) continue;
    for (const int64_t batch : {16, 64, 256}) {
      if (random() % 4 == 0) continue;
      FakeCell one{
          .model = model, .global_batch = batch, .step_us = 10.0 * static_cast<double>(batch), .num_runs = runs};
      one.stream = ++stream;
      test::add_cell(records, one);
      for (const int64_t devices : {2, 4}) {
        if (random() % 3 == 0) continue;
        FakeCell several = one;
        several.devices = devices;
        several.stream = ++stream;
        several.step_us = one.step_us / gain(random);
        if (random() % 4 == 0) several.scaling = "weak", several.global_batch = batch * devices;
        test::add_cell(records, several);
      }
    }
  }
  std::shuffle(records.begin(), records.end(), random);
  return records;
}

std::vector<double> samples_in(const std::vector<Record>& records, const CellKey& key, const char* series) {
  std::vector<double> samples;
  for (const Record& record : records)
    if (cell_key_of(record) == key)
      samples.insert(samples.end(), samples_of(record, series).begin(), samples_of(record, series).end());
  return samples;
}

double middle(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const size_t half = samples.size() / 2;
  return samples.size() % 2 == 1 ? samples[half] : (samples[half - 1] + samples[half]) / 2;
}

TEST(StudyProperties, EveryRunIsInOneCellAndMediansAreThoseOfTheRecords) {
  std::mt19937 random(151);
  for (int trial = 0; trial < 8; ++trial) {
    const std::vector<Record> records = random_study(random);
    if (records.empty()) continue;
    const StudySummary summary = summarise_study(records);
    int64_t runs = 0;
    std::set<CellKey> seen;
    for (const StudyCell& cell : summary.cells) {
      EXPECT_TRUE(seen.insert(cell.key).second) << format_cell(cell.key);
      EXPECT_EQ(find_cell(summary, cell.key), &cell);
      const std::vector<double> times = samples_in(records, cell.key, "step_time");
      runs += cell.step_time_us.n;
      ASSERT_EQ(cell.step_time_us.n, static_cast<int64_t>(times.size()));
      EXPECT_NEAR(cell.step_time_us.estimate().value, middle(times), 1e-9 * middle(times));
      EXPECT_EQ(cell.step_time_us.minimum, *std::min_element(times.begin(), times.end()));
      EXPECT_EQ(cell.step_time_us.maximum, *std::max_element(times.begin(), times.end()));
      const auto [rate, ci] = cell.throughput();
      EXPECT_NEAR(rate * middle(times), 1e6 * static_cast<double>(cell.key.global_batch), 1e-3);
      ASSERT_TRUE(ci);
      EXPECT_TRUE(ci->low <= rate && rate <= ci->high);
    }
    EXPECT_EQ(runs, static_cast<int64_t>(records.size()));
  }
}

TEST(StudyProperties, SpeedupsAreRatiosOfTheCellsTheyName) {
  std::mt19937 random(152);
  int weak = 0, strong = 0;
  for (int trial = 0; trial < 12; ++trial) {
    const std::vector<Record> records = random_study(random);
    if (records.empty()) continue;
    const StudySummary summary = summarise_study(records);
    for (const StudyComparison& c : summary.comparisons) {
      EXPECT_EQ(c.single.devices, 1);
      EXPECT_EQ(c.single.model, c.multi.model);
      const bool is_weak = c.multi.scaling == "weak";
      ++(is_weak ? weak : strong);
      EXPECT_EQ(c.single.global_batch, is_weak ? c.multi.global_batch / c.multi.devices : c.multi.global_batch);
      const auto rate = [&](const CellKey& key) {
        return static_cast<double>(key.global_batch) / middle(samples_in(records, key, "step_time"));
      };
      EXPECT_NEAR(c.test.ratio, rate(c.multi) / rate(c.single), 1e-9);
      EXPECT_NEAR(c.efficiency, c.test.ratio / static_cast<double>(c.multi.devices), 1e-12);
      ASSERT_TRUE(c.test.ci && c.efficiency_ci);
      EXPECT_NEAR(c.efficiency_ci->low * static_cast<double>(c.multi.devices), c.test.ci->low, 1e-12);
      EXPECT_TRUE(c.test.ci->low <= c.test.ratio && c.test.ratio <= c.test.ci->high);
    }
    // Every cell on several devices whose baseline was measured is compared, once.
    std::set<CellKey> compared;
    for (const StudyComparison& c : summary.comparisons) EXPECT_TRUE(compared.insert(c.multi).second);
    for (const StudyCell& cell : summary.cells) {
      if (cell.key.devices == 1) continue;
      const int64_t wanted = cell.key.scaling == "weak" ? cell.key.device_batch() : cell.key.global_batch;
      const bool has_baseline = std::any_of(summary.cells.begin(), summary.cells.end(), [&](const StudyCell& one) {
        return one.key.devices == 1 && one.key.model == cell.key.model && one.key.global_batch == wanted;
      });
      EXPECT_EQ(compared.contains(cell.key), has_baseline) << format_cell(cell.key);
    }
  }
  EXPECT_GT(weak, 2);
  EXPECT_GT(strong, 15);
}

TEST(StudyProperties, AveragesAreGeometricMeans) {
  std::mt19937 random(153);
  int seen = 0;
  for (int trial = 0; trial < 12; ++trial) {
    const std::vector<Record> records = random_study(random);
    if (records.empty()) continue;
    const StudySummary summary = summarise_study(records);
    for (const AverageSpeedup& a : summary.averages) {
      double logs = 0;
      int64_t batches = 0;
      for (const StudyComparison& c : summary.comparisons)
        if (c.multi.model == a.model && c.multi.scaling == a.scaling && c.multi.devices == a.devices)
          logs += std::log(c.test.ratio), ++batches;
      ASSERT_GT(batches, 0);
      EXPECT_EQ(a.num_batches, batches);
      EXPECT_NEAR(a.geometric_mean, std::exp(logs / static_cast<double>(batches)), 1e-9);
      ++seen;
    }
  }
  EXPECT_GT(seen, 6);
}

TEST(StudyProperties, TheOrderOfTheRecordsDoesNotMatter) {
  std::mt19937 random(154);
  for (int trial = 0; trial < 5; ++trial) {
    std::vector<Record> records = random_study(random);
    if (records.empty()) continue;
    const auto ratios = [](const StudySummary& summary) {
      std::map<CellKey, std::tuple<double, Verdict, Recommendation>> all;
      for (const StudyComparison& c : summary.comparisons)
        all[c.multi] = {std::round(c.test.ratio * 1e9), c.test.verdict, c.recommendation};
      return all;
    };
    const auto before = ratios(summarise_study(records));
    std::shuffle(records.begin(), records.end(), random);
    EXPECT_EQ(ratios(summarise_study(records)), before);
  }
}

TEST(StudyProperties, AllTimesTwiceAsLongIsTheSameStudy) {
  std::mt19937 random(155);
  for (int trial = 0; trial < 5; ++trial) {
    const std::vector<Record> records = random_study(random);
    if (records.empty()) continue;
    std::vector<Record> slower = records;
    for (Record& record : slower)
      for (Series& series : record.series)
        for (double& sample : series.samples) {
          if (series.unit == "us") sample *= 2;
          if (series.name == "throughput") sample /= 2;
        }
    const StudySummary one = summarise_study(records), two = summarise_study(slower);
    ASSERT_EQ(one.comparisons.size(), two.comparisons.size());
    for (size_t i = 0; i < one.comparisons.size(); ++i) {
      EXPECT_NEAR(one.comparisons[i].test.ratio, two.comparisons[i].test.ratio, 1e-9);
      EXPECT_EQ(one.comparisons[i].recommendation, two.comparisons[i].recommendation);
      EXPECT_EQ(one.comparisons[i].test.verdict, two.comparisons[i].test.verdict);
    }
  }
}

size_t times_in(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

TEST(StudyTextProperties, EveryComparisonIsALineWithItsNumbers) {
  std::mt19937 random(156);
  for (int trial = 0; trial < 6; ++trial) {
    const std::vector<Record> records = random_study(random);
    if (records.empty()) continue;
    const StudySummary summary = summarise_study(records);
    for (const std::string& text : {test::study_text(summary), test::study_text(summary, {0, Charset::utf8})}) {
      std::map<std::string, size_t> expected;
      for (const StudyComparison& c : summary.comparisons)
        ++expected[fmt::format("{} [{}, {}]", format_number(c.test.ratio, 4), format_number(c.test.ci->low, 4),
                               format_number(c.test.ci->high, 4))];
      for (const auto& [speedup, count] : expected) EXPECT_GE(times_in(text, speedup), count) << speedup;
      for (const char* nonsense : {"nan", "inf ", "-0.00", "e+", "`"}) EXPECT_EQ(times_in(text, nonsense), 0u) << text;
      for (const std::string& model : {std::string("medium"), std::string("large")}) {
        const bool compared = std::any_of(summary.comparisons.begin(), summary.comparisons.end(),
                                          [&](const StudyComparison& c) { return c.multi.model == model; });
        if (compared) {
          EXPECT_GT(times_in(text, model), 0u);
        }
      }
    }
  }
}

TEST(StudyTextProperties, NamesFromRecordsAreNoControlCharactersAndNoMarkup) {
  std::vector<Record> records = test::sample_study();
  const std::string evil = "mo\x1b[31mdel|`<script>\n# x";
  for (Record& record : records) record.axes["model"] = evil;
  const StudySummary summary = summarise_study(records);
  const std::string text = test::study_text(summary), markdown = test::study_markdown(summary);
  for (const std::string& shown : {text, markdown}) {
    EXPECT_EQ(shown.find('\x1b'), std::string::npos);
    EXPECT_EQ(shown.find("\n# x"), std::string::npos) << "a line of its own";
  }
  EXPECT_EQ(markdown.find("<script>"), std::string::npos);
}

TEST(StudyProperties, RecordsThatLackAnythingAreRefusedByName) {
  std::mt19937 random(157);
  const std::vector<Record> whole = test::sample_study();
  for (const auto& [name, value] : whole.front().axes) {
    if (name == "run" || name == "steps" || name == "warmup") continue;
    std::vector<Record> records = whole;
    records[2].axes.erase(name);
    const Error error = error_of([&] { static_cast<void>(summarise_study(records)); });
    if (error.cause() == Cause::internal) continue;  // earlier versions did not write it
    EXPECT_EQ(error.cause(), Cause::store_corrupt) << name;
    EXPECT_NE(error.line().find(name), std::string::npos) << error.line();
    records = whole;
    records[2].axes[name] = 0.5;
    const Error other = error_of([&] { static_cast<void>(summarise_study(records)); });
    EXPECT_EQ(other.cause(), Cause::store_corrupt) << name;
    EXPECT_NE(other.line().find(name), std::string::npos) << other.line();
  }
  for (const double odd : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    std::vector<Record> records = whole;
    for (Series& series : records[1].series)
      if (series.name == "step_time") series.samples = {odd};
    EXPECT_EQ(error_of([&] { static_cast<void>(summarise_study(records)); }).cause(), Cause::store_corrupt) << odd;
  }
}

TEST(WordsProperties, MarkdownOfAnyTextIsThatText) {
  std::mt19937 random(158);
  for (int trial = 0; trial < 500; ++trial) {
    std::string text(random() % 20, ' ');
    for (char& c : text) c = static_cast<char>(0x20 + random() % 0x5f);
    // A reader of CommonMark's backslash escapes and of &amp;.
    const std::string escaped = escape_markdown(text);
    std::string back;
    for (size_t i = 0; i < escaped.size(); ++i) {
      if (escaped[i] == '\\') {
        back += escaped[++i];
      } else if (escaped.compare(i, 5, "&amp;") == 0) {
        back += '&', i += 4;
      } else {
        EXPECT_EQ(std::string("`*_{}[]<>#|~&").find(escaped[i]), std::string::npos) << escaped;
        back += escaped[i];
      }
    }
    EXPECT_EQ(back, text);
  }
}

TEST(WordsProperties, AThrottledDeviceHasAReasonBesideTheHarmlessOnes) {
  for (int bits = 0; bits < 64; ++bits) EXPECT_EQ(was_throttled(bits), bits > 3) << bits;
  EXPECT_TRUE(was_throttled(9223372036854775808.0)) << "the highest bit";
}

}  // namespace
}  // namespace amdahl
