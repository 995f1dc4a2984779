#include "sensor/report/compare.h"

#include <gtest/gtest.h>

#include "report/compare/compare.h"
#include "report/page/text_page.h"
#include "sensor/report/cost.h"
#include "sensor_records.h"
#include "spec/json.h"

namespace amdahl {
namespace {

using test::fake_sensor;
using test::FakeSensor;
using test::kA100, test::kH100;

const std::vector<std::string> kTwoH100{kH100, kH100}, kTwoA100{kA100, kA100};

FakeSensor two(double time_us, const std::vector<std::string>& devices = kTwoH100) {
  return {.devices = devices, .time_us = time_us, .mode = "data", .scaling = "strong"};
}

SensorRun run_of(const std::string& name, const std::vector<FakeSensor>& fakes) {
  SensorRun run{name, {}};
  for (const FakeSensor& fake : fakes) run.records.push_back(fake_sensor(fake));
  return run;
}

SensorSides sides_of(const std::vector<FakeSensor>& single, const std::vector<FakeSensor>& multi) {
  return {{run_of("one", single)}, {run_of("several", multi)}, {}};
}

PriceTable prices_of(double h100, double a100) {
  PriceTable prices;
  prices.source = "p.toml";
  prices.devices = {{"H100", h100, 30'000.0, {}, ""}, {"A100", a100, {}, {}, ""}};
  return prices;
}

SensorCompareOptions priced(double h100 = 3.5, double a100 = 2.5) { return {prices_of(h100, a100), false}; }

const SensorRow& row(const SensorComparison& c, size_t index) { return c.workloads.at(0).rows.at(index); }

bool has(const std::vector<std::string>& notes, const std::string& text) {
  for (const std::string& note : notes)
    if (note.find(text) != std::string::npos) return true;
  return false;
}

std::string refusal(const SensorSides& sides, Cause cause = Cause::usage, const SensorCompareOptions& options = {}) {
  try {
    compare_sensors(sides, options);
  } catch (const Error& e) {
    EXPECT_EQ(e.cause(), cause) << e.what();
    EXPECT_FALSE(e.remedy().empty());
    return e.what();
  }
  return "accepted";
}

TEST(SensorCompare, StrongScalingByHand) {
  const SensorComparison c = compare_sensors(sides_of({{}}, {two(62.5)}), priced());
  ASSERT_EQ(c.workloads.size(), 1u);
  ASSERT_EQ(c.workloads[0].rows.size(), 2u);
  EXPECT_EQ(c.workloads[0].unit, "batches/s");
  EXPECT_FALSE(row(c, 0).speedup || row(c, 0).efficiency || row(c, 0).recommendation);
  EXPECT_DOUBLE_EQ(row(c, 0).throughput, 40'000);
  const SensorRow& multi = row(c, 1);
  EXPECT_EQ(multi.n, 5);
  EXPECT_DOUBLE_EQ(multi.speedup->ratio, 1.6);
  EXPECT_DOUBLE_EQ(*multi.efficiency, 0.8);
  ASSERT_TRUE(multi.speedup->ci && multi.efficiency_ci && multi.throughput_ci);
  EXPECT_DOUBLE_EQ(multi.efficiency_ci->low, multi.speedup->ci->low / 2);
  EXPECT_DOUBLE_EQ(multi.throughput, 64'000);
  EXPECT_DOUBLE_EQ(multi.throughput_ci->low, 64'000);
  EXPECT_DOUBLE_EQ(multi.work_per_hour, 230.4e6);
  EXPECT_DOUBLE_EQ(multi.cost->hourly_price, 7);
  EXPECT_DOUBLE_EQ(multi.cost->work_per_price, 230.4e6 / 7);
  EXPECT_DOUBLE_EQ(*multi.cost->purchase_price, 60'000);
  EXPECT_DOUBLE_EQ(*multi.cost->purchase_per_throughput, 60'000.0 / 64'000);
  EXPECT_EQ(*multi.recommendation, Recommendation::multi_device);
  EXPECT_EQ(c.workloads[0].fastest, 1u);
  EXPECT_EQ(*c.workloads[0].cheapest, 0u);  // 144e6 / 3.5 > 230.4e6 / 7
}

TEST(SensorCompare, WeakScalingComparesThroughput) {
  FakeSensor weak = two(125);
  weak.scaling = "weak";
  weak.items = 8;
  const SensorComparison c = compare_sensors(sides_of({{}}, {weak}));
  EXPECT_DOUBLE_EQ(row(c, 1).speedup->ratio, 1.6);  // times alone would say 0.8
  EXPECT_DOUBLE_EQ(*row(c, 1).efficiency, 0.8);
  EXPECT_TRUE(has(c.notes, "`prices=FILE`"));
  EXPECT_FALSE(row(c, 1).cost);
}

TEST(SensorCompare, OtherItemsAreOtherWork) {
  FakeSensor weak = two(125), strong = two(60);
  weak.scaling = "weak";
  strong.items = 8;
  const SensorComparison c = compare_sensors(sides_of({{}}, {weak, strong, two(70)}));
  ASSERT_EQ(c.workloads[0].rows.size(), 2u);
  EXPECT_NEAR(row(c, 1).speedup->ratio, 100.0 / 70, 1e-12);
  EXPECT_TRUE(has(c.notes, "weak scaling")) << c.notes.front();
  EXPECT_TRUE(has(c.notes, "8 items per call where 4 in one ask for 4"));
  EXPECT_NE(refusal(sides_of({{}}, {weak})).find("no workload in common"), std::string::npos);
}

TEST(SensorCompare, TheBestSingleResultIsTheBaseline) {
  const SensorSides sides{
      {run_of("slow", {{.time_us = 200}}), run_of("fast", {{.time_us = 100}})}, {run_of("m", {two(80)})}, {}};
  const SensorComparison c = compare_sensors(sides);
  EXPECT_EQ(row(c, 0).run, "fast");
  EXPECT_DOUBLE_EQ(row(c, 1).speedup->ratio, 0.5);
  EXPECT_FALSE(row(c, 1).recommendation);  // of one device
  EXPECT_DOUBLE_EQ(row(c, 2).speedup->ratio, 1.25);
}

TEST(SensorCompare, EfficiencyOfUnlikeDevicesIsAgainstTheirSum) {
  FakeSensor both{.devices = {kH100, kA100}, .time_us = 64, .mode = "hetero"};
  SensorSides sides{{run_of("one", {{}, {.devices = {kA100}, .time_us = 400}})}, {}, {run_of("both", {both})}};
  const SensorComparison c = compare_sensors(sides);
  const SensorRow& hetero = row(c, 2);
  EXPECT_DOUBLE_EQ(hetero.speedup->ratio, 100.0 / 64);
  EXPECT_TRUE(hetero.efficiency_by_sum);
  EXPECT_DOUBLE_EQ(*hetero.efficiency, 62'500.0 / (40'000 + 10'000));
  EXPECT_NEAR(hetero.efficiency_ci->low, 1.25, 1e-9);

  sides.multi = {run_of("slow pair", {two(250, kTwoA100)})};  // against twice the A100 alone, not the H100
  const SensorComparison with_pair = compare_sensors(sides);
  EXPECT_DOUBLE_EQ(row(with_pair, 2).speedup->ratio, 0.4);
  EXPECT_DOUBLE_EQ(*row(with_pair, 2).efficiency, 0.8);
  EXPECT_NEAR(row(with_pair, 2).efficiency_ci->low, 0.8, 1e-9);
  EXPECT_NEAR(row(with_pair, 2).efficiency_ci->high, 0.8, 1e-9);
  EXPECT_EQ(*row(with_pair, 2).recommendation, Recommendation::single_device);

  sides.single = {run_of("one", {{}})};  // nothing is known of an A100 alone
  const SensorComparison unknown = compare_sensors(sides);
  EXPECT_FALSE(row(unknown, 1).efficiency || row(unknown, 2).efficiency);
  EXPECT_TRUE(has(unknown.notes, "no efficiency with it"));
}

TEST(SensorCompare, TheHeadlineIsTheVerdictOfAllWorkloads) {
  const auto verdict = [](double time_us) {
    return sensor_compare_page(compare_sensors(sides_of({{.time_us = 100}}, {two(time_us)}))).verdict;
  };
  EXPECT_EQ(verdict(50).rfind("Several GPUs are faster in the one workload: up to 2.00x [", 0), 0U) << verdict(50);
  EXPECT_EQ(verdict(200).rfind("One is enough: stay with one GPU: at best 0.50x [", 0), 0U) << verdict(200);
}

// The comparison that this one replaces divided 1.78x by the price of two H100 and 1.70x by that of two A100, and so
// found the slower devices better value however slow they were.
TEST(SensorCompare, WorkForThePriceIsOfAbsoluteThroughput) {
  const SensorComparison c = compare_sensors(
      sides_of({{.time_us = 89}, {.devices = {kA100}, .time_us = 340}}, {two(50), two(200, kTwoA100)}), priced());
  const auto of = [&](const char* device, size_t count) -> const SensorRow& {
    for (const SensorRow& r : c.workloads[0].rows)
      if (r.devices == std::vector<std::string>(count, device)) return r;
    throw std::runtime_error("no such row");
  };
  EXPECT_DOUBLE_EQ(of(kH100, 2).speedup->ratio, 1.78);
  EXPECT_DOUBLE_EQ(*of(kA100, 2).efficiency, 0.85);  // 1.70x over one A100
  EXPECT_GT(1.70 / 5, 1.78 / 7);                     // what was divided before
  EXPECT_DOUBLE_EQ(of(kH100, 2).cost->work_per_price, 80'000.0 * 3600 / 7);
  EXPECT_DOUBLE_EQ(of(kA100, 2).cost->work_per_price, 20'000.0 * 3600 / 5);
  EXPECT_GT(of(kH100, 2).cost->work_per_price, of(kA100, 2).cost->work_per_price);
  EXPECT_EQ(c.workloads[0].rows[*c.workloads[0].cheapest].devices.front(), kH100);
  for (const std::string& text : {text_page(sensor_compare_page(c)), sensor_comparison_to_json(c)})
    for (const char* wrong : {"0.254", "0.34", "0.24 ", "0.36"}) EXPECT_EQ(text.find(wrong), std::string::npos) << text;
}

TEST(SensorCompare, WorkForThePriceFollowsTimeAtTheSameSpeedup) {
  const SensorComparison fast = compare_sensors(sides_of({{}}, {two(62.5)}), priced());
  const SensorComparison slow = compare_sensors(sides_of({{.time_us = 1000}}, {two(625)}), priced());
  EXPECT_DOUBLE_EQ(row(fast, 1).speedup->ratio, row(slow, 1).speedup->ratio);
  EXPECT_DOUBLE_EQ(row(fast, 1).cost->work_per_price, 10 * row(slow, 1).cost->work_per_price);
}

TEST(SensorCompare, RecommendsByTheInterval) {
  const auto of = [](double time_us, double noise) {
    FakeSensor one{.num_samples = 20, .noise = noise}, several = two(time_us);
    several.num_samples = 20;
    several.noise = noise;
    several.stream = 2;
    return *row(compare_sensors(sides_of({one}, {several})), 1).recommendation;
  };
  EXPECT_EQ(of(90, 0.001), Recommendation::multi_device);
  EXPECT_EQ(of(98, 0.001), Recommendation::marginal);
  EXPECT_EQ(of(110, 0.001), Recommendation::single_device);
  EXPECT_EQ(of(91, 0.2), Recommendation::unclear);
}

TEST(SensorCompare, AMissingPriceIsAbsentAndNamed) {
  SensorCompareOptions options = priced();
  options.prices->devices.pop_back();
  const SensorComparison c =
      compare_sensors(sides_of({{}, {.devices = {kA100}, .time_us = 150}}, {two(60), two(90, kTwoA100)}), options);
  EXPECT_TRUE(row(c, 0).cost && row(c, 2).cost);
  EXPECT_FALSE(row(c, 1).cost || row(c, 3).cost);
  EXPECT_TRUE(has(c.notes, kA100));
  EXPECT_NE(text_page(sensor_compare_page(c)).find("\np.toml has no price of 'NVIDIA A100"), std::string::npos);

  SensorSides sides = sides_of({{}}, {two(60)});
  sides.multi[0].records[0].provenance.facts.erase("device.1");  // half a price would be too low
  const SensorComparison unnamed = compare_sensors(sides, priced());
  EXPECT_FALSE(row(unnamed, 1).cost || row(unnamed, 1).efficiency);
  EXPECT_TRUE(has(unnamed.notes, "names 1 of them"));
}

TEST(SensorCompare, TheDevicesOfARecordAreTheFirstThatAreNamed) {
  SensorSides sides = sides_of({{}}, {two(60)});
  for (SensorRun* run : {&sides.single[0], &sides.multi[0]}) {
    std::map<std::string, std::string>& facts = run->records[0].provenance.facts;
    facts = {{"device.2", kH100}, {"device.3", kH100}, {"device.10", kA100}, {"device.2.uuid", "GPU-2"}};
  }
  const SensorComparison c = compare_sensors(sides, priced());
  EXPECT_EQ(row(c, 0).devices, std::vector<std::string>{kH100});
  EXPECT_EQ(row(c, 1).devices, kTwoH100);
  EXPECT_DOUBLE_EQ(row(c, 1).cost->hourly_price, 7);
}

TEST(SensorCompare, PoolsTheRunsOfOneConfiguration) {
  SensorSides sides = sides_of({{}, {.time_us = 120}}, {two(60)});
  sides.single[0].records[0].axes["run"] = int64_t{0};
  sides.single[0].records[1].axes["run"] = int64_t{1};
  const SensorComparison c = compare_sensors(sides);
  ASSERT_EQ(c.workloads[0].rows.size(), 2u);
  EXPECT_EQ(row(c, 0).n, 10);
  EXPECT_NEAR(row(c, 1).speedup->ratio, 110.0 / 60, 1e-12);
  sides.single[0].records[1].axes["run"] = int64_t{0};
  EXPECT_NE(refusal(sides, Cause::store_corrupt).find("is there already"), std::string::npos);
}

TEST(SensorCompare, EachSideTakesItsOwn) {
  FakeSensor both{.devices = {kH100, kA100}, .time_us = 64, .mode = "hetero"};
  const SensorRun all = run_of("all", {{}, two(60), both});
  const SensorComparison one_file = compare_sensors({{all}, {all}, {all}});
  EXPECT_EQ(one_file.workloads[0].rows.size(), 3u);
  EXPECT_FALSE(has(one_file.notes, "left out"));
  const SensorComparison c = compare_sensors({{all}, {run_of("two", {two(61)})}, {}});
  EXPECT_EQ(c.workloads[0].rows.size(), 2u);
  EXPECT_TRUE(has(c.notes, "all: 1 record left out: in mode hetero, which `hetero` takes"));
  EXPECT_TRUE(has(c.notes, "all: 1 record left out: on several devices, which `multi` takes"));
}

TEST(SensorCompare, Refuses) {
  const std::vector<FakeSensor> one{{}};
  EXPECT_NE(refusal({}).find("no run on one device"), std::string::npos);
  EXPECT_NE(refusal({{run_of("one", one)}, {}, {}}).find("no run on several"), std::string::npos);
  EXPECT_NE(refusal(sides_of({two(60)}, {two(60)})).find("`single`: no result on one device in one"),
            std::string::npos);
  EXPECT_NE(refusal(sides_of(one, one)).find("`multi`: no result"), std::string::npos);
  EXPECT_NE(refusal(sides_of(one, {})).find("`multi`: no result"), std::string::npos);
  SensorSides twice = sides_of(one, {two(60)});
  twice.multi.push_back(twice.multi[0]);
  EXPECT_NE(refusal(twice).find("twice"), std::string::npos);

  for (const auto change : {+[](FakeSensor& f) { f.op = "resample"; }, +[](FakeSensor& f) { f.dtype = "bf16"; },
                            +[](FakeSensor& f) { f.workload = "b5"; }, +[](FakeSensor& f) { f.cache = "cold"; },
                            +[](FakeSensor& f) { f.launch = "eager"; }, +[](FakeSensor& f) { f.voxel_mode = "max"; }}) {
    FakeSensor other = two(60);
    change(other);
    EXPECT_NE(refusal(sides_of(one, {other})).find("no workload in common"), std::string::npos);
  }
  SensorSides failed = sides_of(one, {two(60)});
  failed.multi[0].records[0].status = {Status::Kind::failed, "out of memory"};
  EXPECT_NE(refusal(failed).find("failed: out of memory"), std::string::npos);
}

TEST(SensorCompare, RefusesToMixKindsOfDevicesUnlessAllowed) {
  FakeSensor virtual_device{.devices = {"CPU virtual device 0"}, .time_us = 9000, .device_kind = "cpu-virtual"};
  EXPECT_NE(refusal(sides_of({virtual_device}, {two(60)})).find("cpu-virtual, cuda"), std::string::npos);
  SensorCompareOptions options;
  options.allow_unlike = true;
  EXPECT_TRUE(has(compare_sensors(sides_of({virtual_device}, {two(60)}), options).notes, "device kinds differ"));
}

TEST(SensorCompare, VirtualDevicesAreAlikeAndNeverGpus) {
  FakeSensor one{.devices = {"CPU virtual device 0"}, .device_kind = "cpu-virtual"};
  FakeSensor pair = two(60, {"CPU virtual device 0", "CPU virtual device 1"});
  pair.device_kind = "cpu-virtual";
  SensorCompareOptions options;
  options.prices = prices_of(1, 1);
  options.prices->devices.push_back({"cpu-virtual", 0.1, {}, {}, ""});
  const SensorComparison c = compare_sensors(sides_of({one}, {pair}), options);
  EXPECT_FALSE(row(c, 1).efficiency_by_sum);
  EXPECT_DOUBLE_EQ(row(c, 1).cost->hourly_price, 0.2);
  std::string text = text_page(sensor_compare_page(c));
  EXPECT_NE(text.find("2x CPU virtual device"), std::string::npos) << text;
  EXPECT_NE(text.find("several CPU virtual devices beneficial"), std::string::npos) << text;
  text.erase(text.find("not GPUs"), 8);
  EXPECT_EQ(text.find("GPU"), std::string::npos) << text;
}

TEST(SensorCompare, LimitedDevicesAreNamedNeverPricedAndNoHeadline) {
  SensorSides sides = sides_of({{}}, {two(60)});
  Record limited = record_from_json(record_to_json(test::fake_limited({.time_us = 20}, "proportional")), "test");
  sides.hetero.push_back({"limited", {limited}});
  SensorCompareOptions options;
  options.prices = prices_of(1, 1);
  const SensorComparison c = compare_sensors(sides, options);
  ASSERT_EQ(c.workloads.size(), 1u);
  const WorkloadComparison& workload = c.workloads[0];
  ASSERT_EQ(workload.rows.size(), 3u);
  EXPECT_EQ(workload.rows[2].origin, Origin::emulated);
  EXPECT_EQ(workload.rows[2].devices, (std::vector<std::string>{test::kH100, test::kLimitedH100}));
  EXPECT_FALSE(workload.rows[2].cost);
  EXPECT_TRUE(workload.rows[1].cost);
  EXPECT_EQ(workload.fastest, 1u);
  EXPECT_EQ(workload.fastest_multi, 1u);
  const std::string text = text_page(sensor_compare_page(c));
  EXPECT_NE(text.find("multi-GPU beneficial (emulated)"), std::string::npos) << text;
  EXPECT_TRUE(has(c.notes, "has no price: it is not measured"));
}

TEST(SensorCompare, NamesADamagedRecord) {
  for (const char* name : {"op", "mode", "devices", "dtype", "workload", "cache", "launch", "items"}) {
    SensorSides sides = sides_of({{}}, {two(60)});
    sides.multi[0].records[0].axes.erase(name);
    sides.multi[0].records[0].source = "m.json: records[0]";
    const std::string what = refusal(sides, Cause::store_corrupt);
    EXPECT_NE(what.find("m.json: records[0]"), std::string::npos) << what;
    EXPECT_NE(what.find(name), std::string::npos) << what;
    sides.multi[0].records[0].axes[name] = 1.5;
    EXPECT_NE(refusal(sides, Cause::store_corrupt).find(name), std::string::npos);
  }
  for (const double bad : {0.0, -1.0}) {
    SensorSides sides = sides_of({{}}, {two(60)});
    sides.multi[0].records[0].series[1].samples[2] = bad;
    EXPECT_NE(refusal(sides, Cause::store_corrupt).find("throughput"), std::string::npos);
  }
  SensorSides sides = sides_of({{}}, {two(60)});
  sides.multi[0].records[0].series[1].unit = "points/s";
  EXPECT_NE(refusal(sides, Cause::store_corrupt).find("points/s where others have batches/s"), std::string::npos);
  auto& series = sides.multi[0].records[0].series;
  series.erase(series.begin() + 1);
  EXPECT_NE(refusal(sides, Cause::store_corrupt).find("throughput"), std::string::npos);
}

TEST(SensorCompare, TwoRunsCellByCellOnAllAxes) {
  std::vector<Record> a, b;
  for (const char* mode : {"count", "mean"})
    for (auto [records, time] : {std::pair{&a, 100.0}, {&b, 125.0}}) {
      FakeSensor fake = test::fake_voxels({.time_us = time, .num_samples = 20, .noise = 0.01});
      fake.voxel_mode = mode;
      for (int64_t process = 0; process < 5; ++process) {
        fake.stream = static_cast<uint64_t>(process) * 2 + (records == &a ? 1 : 2);
        records->push_back(fake_sensor(fake));
        records->back().axes["process"] = process;
      }
    }
  a.push_back(fake_sensor({}));  // without voxel_mode: that axis still tells the others apart
  const RunComparison c = compare_fabric(a, b, {});
  ASSERT_EQ(c.cells.size(), 2u);
  EXPECT_EQ(c.only_a.size(), 1u);
  for (const CellComparison& cell : c.cells) {
    EXPECT_EQ(cell.series, "time");
    EXPECT_NEAR(cell.test.ratio, 1.25, 0.01);
    EXPECT_EQ(cell.test.verdict, Verdict::faster);
    EXPECT_EQ(cell.test.n_first, 5 * 20);
  }
  EXPECT_NE(text_page(compare_page({{c}}, "")).find("time in us"), std::string::npos);
  b.push_back(a.back());  // an axis that one side alone has
  const RunComparison fuse_alone = compare_fabric({a.back()}, b, {});
  EXPECT_EQ(fuse_alone.cells.size(), 1u);
  EXPECT_EQ(fuse_alone.only_b.size(), 2u);
}

}  // namespace
}  // namespace amdahl
