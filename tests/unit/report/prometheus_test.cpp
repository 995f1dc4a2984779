#include "report/export/export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include "report/study/summary.h"
#include "report_records.h"

namespace amdahl {
namespace {

struct Sample {
  std::map<std::string, std::string> labels;
  double value = 0;
};

// The text format as its documentation gives it: HELP and TYPE first, then the samples of that metric and no other.
class Exposition {
 public:
  explicit Exposition(const std::string& text) {
    EXPECT_TRUE(text.empty() || text.back() == '\n');
    std::istringstream lines(text);
    std::string line, current;
    while (std::getline(lines, line)) read(line, current);
  }
  std::map<std::string, std::vector<Sample>> families;

  double one(const std::string& name, const std::map<std::string, std::string>& wanted) const {
    std::vector<double> found;
    for (const Sample& sample : families.at(name)) {
      const bool fits = std::all_of(wanted.begin(), wanted.end(), [&](const auto& label) {
        const auto at = sample.labels.find(label.first);
        return at != sample.labels.end() && at->second == label.second;
      });
      if (fits) found.push_back(sample.value);
    }
    EXPECT_EQ(found.size(), 1u) << name;
    return found.empty() ? -1 : found.front();
  }

 private:
  void read(const std::string& line, std::string& current) {
    static const std::regex comment(R"(# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+))");
    static const std::regex sample(R"(([a-zA-Z_:][a-zA-Z0-9_:]*)\{(.*)\} (\S+))");
    std::smatch match;
    if (std::regex_match(line, match, comment)) {
      if (match[1] == "HELP") {
        EXPECT_TRUE(seen_.insert(match[2]).second) << match[2] << " is described twice";
        current = match[2];
      } else {
        EXPECT_EQ(match[2], current);
        EXPECT_EQ(match[3], "gauge");
      }
      return;
    }
    ASSERT_TRUE(std::regex_match(line, match, sample)) << line;
    EXPECT_EQ(match[1], current) << "a sample outside its metric";
    families[match[1]].push_back({labels_of(match[2]), std::stod(match[3])});
    EXPECT_TRUE(series_.insert(line.substr(0, line.rfind(' '))).second) << "twice: " << line;
  }

  static std::map<std::string, std::string> labels_of(const std::string& text) {
    static const std::regex label(R"re(([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"(,|$))re");
    std::map<std::string, std::string> labels;
    size_t read = 0;
    for (std::sregex_iterator at(text.begin(), text.end(), label), end; at != end; ++at) {
      EXPECT_EQ(static_cast<size_t>(at->position()), read) << text;
      read = static_cast<size_t>(at->position() + at->length());
      std::string value;
      const std::string escaped = (*at)[2];
      for (size_t i = 0; i < escaped.size(); ++i)
        value += escaped[i] != '\\' ? escaped[i] : escaped[++i] == 'n' ? '\n' : escaped[i];
      EXPECT_TRUE(labels.emplace((*at)[1], value).second) << text;
    }
    EXPECT_EQ(read, text.size()) << text;
    return labels;
  }

  std::set<std::string> seen_, series_;
};

Record record_of(const std::string& series, const std::string& unit, std::vector<double> samples) {
  Record record;
  record.kind = "link";
  record.provenance = test::fake_provenance("cuda");
  record.series = {{series, unit, std::move(samples)}};
  return record;
}

TEST(Prometheus, RunsOfACellAreSamplesOfOneGauge) {
  std::vector<Record> records;
  test::FakeCell cell;
  for (int run = 0; run < 3; ++run) {
    records.push_back(test::fake_record(cell, run));
    records.back().series = {{"step_time", "us", {1000.0 + 100 * run * run}}};
  }
  const Exposition found(prometheus_text(records));
  EXPECT_DOUBLE_EQ(found.one("amdahl_step_time_seconds", {{"statistic", "median"}}), 1100e-6);
  EXPECT_NEAR(found.one("amdahl_step_time_seconds", {{"statistic", "mean"}}), 3500e-6 / 3, 1e-12);
  EXPECT_EQ(found.one("amdahl_step_time_seconds_samples", {{"global_batch", "64"}, {"host", "node-1"}}), 3);
  EXPECT_EQ(found.one("amdahl_records", {{"status", "ok"}}), 3);
  EXPECT_EQ(found.one("amdahl_records", {{"status", "failed"}}), 0);
  EXPECT_EQ(found.one("amdahl_start_time_seconds", {}), 1767323045);  // 2026-01-02T03:04:05Z
}

TEST(Prometheus, UnitsAreBaseUnits) {
  const auto value = [](const char* unit, const char* metric) {
    return Exposition(prometheus_text({record_of("x", unit, {3})})).one(metric, {{"statistic", "median"}});
  };
  EXPECT_DOUBLE_EQ(value("us", "amdahl_x_seconds"), 3e-6);
  EXPECT_DOUBLE_EQ(value("GB/s", "amdahl_x_bytes_per_second"), 3e9);
  EXPECT_DOUBLE_EQ(value("percent", "amdahl_x_ratio"), 0.03);
  EXPECT_DOUBLE_EQ(value("1", "amdahl_x"), 3);
  EXPECT_DOUBLE_EQ(value("samples/s", "amdahl_x_samples_per_second"), 3);
}

TEST(Prometheus, LabelsFromOutsideAreEscaped) {
  Record record = record_of("bandwidth", "GB/s", {1, 2});
  record.axes["odd name-1"] = std::string("a \"quoted\"\\ text,\nwith={all}");
  record.axes["kind"] = std::string("an axis of that name");
  record.axes["flag"] = true;
  record.axes["3d"] = 0.5;
  const Exposition found(prometheus_text({record}));
  EXPECT_EQ(found.one("amdahl_bandwidth_bytes_per_second", {{"odd_name_1", "a \"quoted\"\\ text,\nwith={all}"},
                                                            {"kind", "link"},
                                                            {"axis_kind", "an axis of that name"},
                                                            {"flag", "true"},
                                                            {"axis_3d", "0.5"},
                                                            {"statistic", "mean"}}),
            1.5e9);
}

TEST(Prometheus, OfEpochsTheLastCounts) {
  std::vector<Record> records;
  for (int64_t epoch = 1; epoch <= 3; ++epoch) {
    records.push_back(record_of("train_loss", "1", {1.0 / static_cast<double>(epoch)}));
    records.back().kind = "train-epoch";
    records.back().axes["epoch"] = epoch;
  }
  const Exposition found(prometheus_text(records));
  EXPECT_DOUBLE_EQ(found.one("amdahl_train_loss", {{"statistic", "median"}}), 1.0 / 3);
  EXPECT_EQ(found.one("amdahl_train_loss_samples", {}), 1);
}

TEST(Prometheus, AFailedRecordIsCountedAndHasNoNumber) {
  Record record = record_of("bandwidth", "GB/s", {});
  record.status = {Status::Kind::failed, "out of memory"};
  const Exposition found(prometheus_text({record}));
  EXPECT_EQ(found.one("amdahl_records", {{"status", "failed"}}), 1);
  EXPECT_FALSE(found.families.contains("amdahl_bandwidth_bytes_per_second"));
}

TEST(Prometheus, VerdictsOfAStudyAreOneOfFour) {
  std::vector<Record> records;
  for (int64_t devices : {1, 2}) {
    test::FakeCell cell;
    cell.devices = devices;
    cell.step_us = 1000.0 / static_cast<double>(devices);
    cell.stream = static_cast<uint64_t>(devices);
    for (int run = 0; run < 5; ++run) records.push_back(test::fake_record(cell, run));
  }
  const StudySummary summary = summarise_study(records);
  ASSERT_EQ(summary.comparisons.size(), 1u);
  const Exposition found(prometheus_text(records, &summary));
  EXPECT_EQ(found.one("amdahl_verdict", {{"verdict", "FASTER"}, {"devices", "2"}}), 1);
  EXPECT_EQ(found.one("amdahl_verdict", {{"verdict", "SLOWER"}, {"devices", "2"}}), 0);
  EXPECT_EQ(found.families.at("amdahl_verdict").size(), 4u);
  EXPECT_NEAR(found.one("amdahl_speedup_ratio", {{"devices", "2"}}), 2, 0.05);
}

TEST(Prometheus, AnyRecordsGiveValidText) {
  std::mt19937 random(17);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto word = [&] {
    std::string text;
    for (int i = below(6); i >= 0; --i) text += "ab_0-/\"\\\n {}=,#"[below(15)];
    return text;
  };
  std::vector<Record> records;
  for (int i = 0; i < 200; ++i) {
    Record record = record_of("s" + std::to_string(below(3)), below(2) == 0 ? "us" : "odd/unit", {});
    for (int k = below(4); k > 0; --k) record.axes[word()] = word();
    for (int k = below(4); k > 0; --k) record.series[0].samples.push_back(below(1000) * 1e-3);
    records.push_back(record);
  }
  const Exposition found(prometheus_text(records));
  EXPECT_GT(found.families.size(), 3u);
  EXPECT_TRUE(prometheus_text({}).empty());
}

}  // namespace
}  // namespace amdahl
