#include "cost/cost.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "chart/cost_chart.h"
#include "chart/study_charts.h"
#include "cost/tables.h"
#include "report/study/summary.h"
#include "report_records.h"
#include "sensor_records.h"
#include "spec/json.h"
#include "spec/toml_files.h"
#include "study_texts.h"

namespace amdahl {
namespace {

using test::FakeCell;

constexpr const char* kRented = "currency = \"EUR\"\n[[device]]\nmatch = \"GPU_X\"\nhourly_price = 2\n";
constexpr const char* kOwned =
    "currency = \"EUR\"\nelectricity_per_kwh = 0.2\namortisation_years = 2\nutilisation = 0.5\n"
    "[[device]]\nmatch = \"GPU_X\"\npurchase_price = 8766\nwatts = 500\n"
    "[[machine]]\ndevices = 1\npurchase_price = 0\n[[machine]]\ndevices = 2\npurchase_price = 4383\n"
    "[[alternative]]\nname = \"storage\"\npurchase_price = 8766\ngain_low = 0.1\ngain_high = 0.2\npart = \"input\"\n"
    "[[alternative]]\nname = \"bigger\"\npurchase_price = 17532\ngain_low = 0.5\ngain_high = 1\nreplaces_device = "
    "true\ninstead_of = \"gpu_x\"\nmemory_gb = 4\n"
    "[[alternative]]\nname = \"memory\"\npurchase_price = 400\n";

PriceTable prices(const std::string& text) { return prices_from_toml(text, "p.toml"); }

CostRun study(const std::vector<FakeCell>& cells, const std::string& name = "run") {
  std::vector<Record> records;
  for (const FakeCell& cell : cells) test::add_cell(records, cell);
  for (Record& record : records) {
    record.provenance.facts.erase("device.0.name");
    for (int i = 0; i < 4; ++i) record.provenance.facts["device." + std::to_string(i)] = "GPU_X 80GB";
  }
  CostRun run{name, summarise_study(records), records};
  return run;
}

FakeCell exact(int64_t batch, int64_t devices, double step_us, const std::string& model = "medium",
               int64_t parameters = 54'403) {
  return {.model = model,
          .num_parameters = parameters,
          .global_batch = batch,
          .devices = devices,
          .step_us = step_us,
          .noise = 1e-4,
          .stream = static_cast<uint64_t>(batch * 10 + devices)};
}

/// Two devices: 0.5x at 64, 1x at 256, 4x at 1024.
CostRun crossing(const std::string& model = "medium", int64_t parameters = 54'403, double factor = 1) {
  return study({exact(64, 1, 100, model, parameters), exact(64, 2, 200 / factor, model, parameters),
                exact(256, 1, 100, model, parameters), exact(256, 2, 100 / factor, model, parameters),
                exact(1024, 1, 400, model, parameters), exact(1024, 2, 100 / factor, model, parameters)},
               model);
}

const CostRow& row_of(const CostReport& report, int64_t size, int64_t devices) {
  for (const CostRow& row : report.rows)
    if (row.size == size && row.devices == devices) return row;
  throw std::runtime_error("no such row");
}

const CostBreakEven& break_even_of(const CostReport& report, const std::string& size_name) {
  for (const CostBreakEven& found : report.break_evens)
    if (found.size_name == size_name) return found;
  throw std::runtime_error("no such break-even");
}

TEST(Cost, WorkPerHourAndForTheMoneyAreAbsolute) {
  const CostReport report = summarise_cost({crossing()}, prices(kRented));
  ASSERT_EQ(report.rows.size(), 6u);
  EXPECT_EQ(report.currency, "EUR");
  const CostRow &one = row_of(report, 64, 1), &two = row_of(report, 64, 2);
  EXPECT_NEAR(one.work_per_hour, 64 / 100e-6 * 3600, 1e-3 * one.work_per_hour);
  EXPECT_EQ(one.hourly_price, 2);
  EXPECT_EQ(two.hourly_price, 4);
  EXPECT_DOUBLE_EQ(one.work_per_price.value(), one.work_per_hour / 2);
  EXPECT_DOUBLE_EQ(two.work_per_price.value(), two.work_per_hour / 4);
  ASSERT_TRUE(one.work_per_price_ci);
  EXPECT_LT(one.work_per_price_ci->low, *one.work_per_price);
  EXPECT_FALSE(one.joule_per_work);
  EXPECT_FALSE(one.gain);
  EXPECT_TRUE(report.notes.empty()) << report.notes.front();
}

TEST(Cost, SeveralDevicesPayFromTheRatioOfPrices) {
  const CostReport report = summarise_cost({crossing()}, prices(kRented));
  const CostGain &at_64 = row_of(report, 64, 2).gain.value(), &at_1024 = row_of(report, 1024, 2).gain.value();
  EXPECT_NEAR(at_64.speedup, 0.5, 1e-3);
  EXPECT_EQ(at_64.break_even_speedup, 2);
  EXPECT_EQ(at_64.payoff, Payoff::does_not_pay);
  EXPECT_EQ(at_1024.payoff, Payoff::pays);
  EXPECT_NEAR(at_1024.break_even_price.value(), 3 * 2, 0.02);  // three devices' worth of work for 2 EUR each
  EXPECT_EQ(at_1024.further_price, 2);
  EXPECT_FALSE(at_1024.payback_months);  // nothing was bought
  EXPECT_EQ(&report.rows[at_64.baseline], &row_of(report, 64, 1));
}

TEST(Cost, BreakEvenBatchByHand) {
  const CostReport report = summarise_cost({crossing()}, prices(kRented));
  const CostBreakEven& found = break_even_of(report, "global_batch");
  EXPECT_EQ(found.faster, (SizeCrossover{1024, 256, 1024}));  // measured 1x at 256
  const BreakEven& price = found.by_price.value();
  EXPECT_EQ(price.at_speedup, 2);
  EXPECT_NEAR(price.value.value(), 512, 1);  // half way from 1x at 256 to 4x at 1024
  ASSERT_TRUE(price.has_interval);
  EXPECT_LT(price.low.value(), *price.value);
  EXPECT_GT(price.high.value(), *price.value);
}

TEST(Cost, BreakEvenSizeOfModelAtOneBatch) {
  // At batch 256, two devices reach 1x with 54,403 parameters and 4x with 16 times as many: 2x at four times.
  const CostReport report = summarise_cost({crossing(), crossing("large", 16 * 54'403, 4)}, prices(kRented));
  for (const CostBreakEven& found : report.break_evens) {
    if (found.size_name != "num_parameters" || found.work.find("256") == std::string::npos) continue;
    EXPECT_NEAR(found.by_price.value().value.value(), 4 * 54'403, 500);
    EXPECT_EQ(found.faster, (SizeCrossover{16 * 54'403, 54'403, 16 * 54'403}));
    return;
  }
  FAIL() << "no break-even over parameters at batch 256";
}

TEST(Cost, DoublingAPriceHalvesWorkForTheMoney) {
  const CostRun run = crossing();
  const CostReport once = summarise_cost({run}, prices(kRented));
  std::string text = kRented;
  text.replace(text.find("hourly_price = 2"), 16, "hourly_price = 4");
  const CostReport twice = summarise_cost({run}, prices(text));
  for (size_t i = 0; i < once.rows.size(); ++i) {
    EXPECT_DOUBLE_EQ(*twice.rows[i].work_per_price * 2, *once.rows[i].work_per_price);
    EXPECT_EQ(twice.rows[i].work_per_hour, once.rows[i].work_per_hour);
    if (once.rows[i].gain) {
      EXPECT_EQ(twice.rows[i].gain->payoff, once.rows[i].gain->payoff);  // a ratio of prices
    }
  }
  EXPECT_EQ(break_even_of(once, "global_batch").by_price.value().value,
            break_even_of(twice, "global_batch").by_price.value().value);
}

TEST(Cost, OwnedHardwareCountsWithMachineUtilisationAndPower) {
  // 24 months x 730.5 h x 0.5 = 8766 h: 1 EUR/h a device, 0.1 EUR/h of power, half a EUR for the machine of two.
  const CostReport report = summarise_cost({crossing()}, prices(kOwned));
  const CostRow &one = row_of(report, 1024, 1), &two = row_of(report, 1024, 2);
  EXPECT_TRUE(one.owned && two.owned);
  EXPECT_NEAR(one.hourly_price.value(), 1.1, 1e-12);
  EXPECT_NEAR(two.hourly_price.value(), 2.7, 1e-12);
  const CostGain& gain = two.gain.value();
  EXPECT_NEAR(gain.break_even_speedup.value(), 2.7 / 1.1, 1e-12);
  EXPECT_EQ(gain.further_invest, 8766 + 4383);
  // (4 - 1) x 1.1 EUR/h of work less 0.1 EUR/h of power, in 365.25 h a month.
  EXPECT_NEAR(gain.payback_months.value(), 13149 / ((gain.speedup - 1) * 1.1 - 0.1) / 365.25, 1e-9);
  EXPECT_FALSE(gain.never_paid_back);
  EXPECT_TRUE(row_of(report, 64, 2).gain->never_paid_back);
  EXPECT_FALSE(row_of(report, 64, 2).gain->payback_months);
}

TEST(Cost, PaysExactlyWhenPaidBackWithinItsTime) {
  for (const double step : {90.0, 120.0, 150.0, 162.0, 165.0, 180.0, 250.0}) {
    const CostReport report = summarise_cost({study({exact(64, 1, 400), exact(64, 2, step)})}, prices(kOwned));
    const CostGain& gain = row_of(report, 64, 2).gain.value();
    ASSERT_TRUE(gain.payback_months);
    EXPECT_EQ(*gain.payback_months <= 24, gain.speedup >= *gain.break_even_speedup) << step;
  }
}

TEST(Cost, AlternativesAreModelledFromTheTable) {
  const CostReport report = summarise_cost({crossing()}, prices(kOwned));
  ASSERT_EQ(report.alternatives.size(), 3u);
  const CostRow& one = report.rows[report.alternatives[0].baseline];
  EXPECT_EQ(one.devices, 1);
  const CostAlternative& storage = report.alternatives[0];  // input is 5 % of a step in these records
  EXPECT_NEAR(storage.gain->low, 1 / (0.95 + 0.05 / 1.1) - 1, 1e-6);
  EXPECT_NEAR(storage.hourly_price.value(), 2.1, 1e-12);
  const CostAlternative& bigger = report.alternatives[1];
  EXPECT_NEAR(bigger.hourly_price.value(), 2.0, 1e-12);
  EXPECT_NEAR(bigger.work_per_price->high, one.work_per_hour * 2 / 2, 1e-6 * one.work_per_hour);
  EXPECT_FALSE(report.alternatives[2].gain);
  EXPECT_NE(report.alternatives[2].why_absent, "");
  EXPECT_NE(cost_to_json(report, "v").find("\"origin\": \"modelled\""), std::string::npos);
}

TEST(Cost, ADeviceIsAnAlternativeToTheOneItsGainIsOver) {
  std::string table = kOwned;
  const std::string own = "instead_of = \"gpu_x\"";
  const CostReport other = summarise_cost(
      {crossing()}, prices(std::string(table).replace(table.find(own), own.size(), "instead_of = \"RTX\"")));
  EXPECT_EQ(other.alternatives.size(), 2u) << "the bigger device is not over a GPU_X";
  EXPECT_NE(text_page(cost_page(other, ""))
                .find("no comparison with bigger: p.toml has it instead of RTX, and this is GPU_X 80GB"),
            std::string::npos)
      << text_page(cost_page(other, ""));
  const std::string memory = "memory_gb = 4";  // the work takes 2.5 GB
  const CostReport small =
      summarise_cost({crossing()}, prices(table.replace(table.find(memory), memory.size(), "memory_gb = 2")));
  ASSERT_EQ(small.alternatives.size(), 3u);
  EXPECT_FALSE(small.alternatives[1].work_per_hour);
  EXPECT_EQ(small.alternatives[1].why_absent, "it has 2.0 GB of memory, and the work takes 2.5 GB");
}

TEST(Cost, AReplacementSaysOfWhat) {
  const std::string head = std::string(kRented) + "[[alternative]]\nname = \"x\"\npurchase_price = 1\n";
  for (const char* wrong : {"replaces_device = true\n", "instead_of = \"H100\"\n", "memory_gb = 24\n"})
    EXPECT_THROW(prices(head + wrong), Error) << wrong;
  EXPECT_EQ(prices(head + "replaces_device = true\ninstead_of = \"H100\"\n").alternatives[0].instead_of, "H100");
}

TEST(Cost, TheExampleOffersNoSmallDeviceForALargeOne) {
  CostRun run = crossing();
  run.study->provenance.front().facts["device.0"] = run.study->provenance.front().facts["device.1"] = "NVIDIA H200";
  const std::string text =
      text_page(cost_page(summarise_cost({run}, load_prices(AMDAHL_SOURCE_DIR "/data/prices.toml")), ""));
  EXPECT_NE(text.find("no comparison with one bigger GPU (RTX 4090)"), std::string::npos) << text;
  EXPECT_EQ(text.find("it replaces a bought device"), std::string::npos) << text;
}

TEST(Cost, RowsOfSeveralRunsSayWhich) {
  const CostRun again = study({exact(64, 1, 101), exact(64, 2, 200)}, "again");
  const CostReport report = summarise_cost({study({exact(64, 1, 100)}, "first"), again}, prices(kRented));
  const PageTable table = cost_table(report, works_of(report).front());
  EXPECT_EQ(table.table.columns[2].title, "run");
  std::vector<std::string> runs;
  for (const auto& row : table.table.rows) {
    ASSERT_EQ(row.size(), table.table.columns.size());
    runs.push_back(std::get<std::string>(row[2]));
  }
  std::sort(runs.begin(), runs.end());
  EXPECT_EQ(runs, (std::vector<std::string>{"again", "again", "first"}));
  const CostReport one = summarise_cost({again}, prices(kRented));
  EXPECT_EQ(cost_table(one, works_of(one).front()).table.columns[2].title, "samples/s [95 % CI]");
}

TEST(Cost, AStudySaysTheSame) {
  const CostRun run = crossing();
  const CostReport report = summarise_cost({run}, prices(kRented));
  const StudyGroup group = groups_of(*run.study).front();
  const auto study = crossover_batch(*run.study, group, 2);
  ASSERT_TRUE(study);
  EXPECT_EQ(break_even_of(report, "global_batch").faster, study);
  const std::string words = crossover_text(*study, "global batch");
  EXPECT_NE(text_page(cost_page(report, "")).find(words), std::string::npos) << text_page(cost_page(report, ""));
  std::string plain = test::study_markdown(*run.study);
  std::erase(plain, '\\');
  EXPECT_NE(plain.find(words), std::string::npos) << plain;
}

TEST(Cost, FasterOnlyWhereTheStudyRecommendsIt) {
  // 1.05x at the two larger batches: worth an hour that costs as much, and not recommended.
  const CostRun run = study({exact(64, 1, 100), exact(64, 2, 200), exact(256, 1, 105), exact(256, 2, 100),
                             exact(1024, 1, 105), exact(1024, 2, 100)});
  const CostReport report = summarise_cost({run}, prices(kRented));
  EXPECT_EQ(break_even_of(report, "global_batch").faster, std::nullopt);
  EXPECT_NE(text_page(cost_page(report, "")).find("not certainly at 1,024"), std::string::npos);
  for (const StudyComparison& c : run.study->comparisons)
    EXPECT_EQ(row_of(report, c.multi.global_batch, 2).gain->recommendation, c.recommendation);
}

TEST(Cost, AnAccountOfAnotherStepGivesNoShareOfInput) {
  CostRun run = crossing();
  for (StudyCell& cell : run.study->cells)
    if (cell.account) cell.account->measured_us = cell.account->step_us / 1.5;
  const CostReport report = summarise_cost({run}, prices(kOwned));
  EXPECT_FALSE(report.alternatives[0].gain);
  EXPECT_NE(report.alternatives[0].why_absent.find("not of the measured step"), std::string::npos);
}

TEST(Cost, SummariesAloneGiveTheSame) {
  const CostRun run = crossing();
  CostRun summary{run.name, summary_from_json(summary_to_json(*run.study), "s"), {}};
  const CostReport a = summarise_cost({run}, prices(kOwned)), b = summarise_cost({summary}, prices(kOwned));
  EXPECT_EQ(cost_to_json(a, ""), cost_to_json(b, ""));
}

TEST(Cost, EnergyOfTheRecordsBecomesJoulePerSample) {
  CostRun run = study({exact(64, 1, 100)});
  for (Record& record : run.records) record.series.push_back({"energy", "J", {3.2}});
  const CostReport report = summarise_cost({run}, prices(kRented));
  EXPECT_NEAR(report.rows.at(0).joule_per_work.value(), 3.2 / (100 * 64), 1e-12);
  EXPECT_NE(text_page(cost_page(summarise_cost({crossing()}, prices(kRented)), "")).find("not measured"),
            std::string::npos);
}

TEST(Cost, SensorsHaveItemsAndBreakEvens) {
  std::vector<Record> records;
  for (const int64_t items : {4, 16, 64}) {
    test::FakeSensor one{
        .time_us = 100, .items = items, .workload = "b" + std::to_string(items) + " 30x512->50", .noise = 1e-4};
    test::FakeSensor two = one;
    two.devices = {test::kH100, test::kH100};
    two.mode = "data", two.scaling = "strong";
    two.time_us = items == 4 ? 400 : items == 16 ? 100 : 25;  // 0.25x, 1x, 4x
    records.push_back(test::fake_sensor(one));
    records.push_back(test::fake_sensor(two));
  }
  const CostReport report =
      summarise_cost({{"sensors", std::nullopt, records}}, prices("[[device]]\nmatch = \"H100\"\nhourly_price = 3\n"));
  EXPECT_EQ(report.rows.size(), 6u);
  EXPECT_EQ(works_of(report).size(), 1u);
  EXPECT_EQ(report.rows[0].unit, "batches");
  EXPECT_EQ(cost_table(report, works_of(report).front()).table.columns[7].title, "J/batch");
  EXPECT_NEAR(break_even_of(report, "items").by_price.value().value.value(), 32, 0.1);
  EXPECT_EQ(break_even_of(report, "items").faster, (SizeCrossover{64, 16, 64}));
}

TEST(Cost, LimitedDevicesAreNamedAndNeverPriced) {
  test::FakeSensor one{.time_us = 100, .cache = "hot"};
  std::vector<Record> records{test::fake_sensor(one)};
  for (const auto& [policy, us] : {std::pair{"even", 150.0}, {"proportional", 75.0}}) {
    one.time_us = us;
    records.push_back(record_from_json(record_to_json(test::fake_limited(one, policy)), "test"));
    records.back().series.push_back({"energy", "J", {1}});
  }
  const CostReport report =
      summarise_cost({{"sensors", std::nullopt, records}}, prices("[[device]]\nmatch = \"H100\"\nhourly_price = 4\n"));
  ASSERT_EQ(report.rows.size(), 3u);
  for (const CostRow& row : report.rows) {
    const bool limited = row.devices == 2;
    EXPECT_EQ(row.origin, limited ? Origin::emulated : Origin::measured);
    EXPECT_EQ(row.hourly_price.has_value(), !limited) << row.configuration;
    EXPECT_EQ(row.work_per_price.has_value(), !limited);
    EXPECT_FALSE(row.joule_per_work);
    if (!limited) continue;
    EXPECT_NE(row.configuration.find(std::string("1x ") + test::kH100 + " + 1x " + test::kLimitedH100),
              std::string::npos)
        << row.configuration;
    ASSERT_TRUE(row.gain);
    EXPECT_FALSE(row.gain->break_even_speedup || row.gain->further_price || row.gain->payback_months);
  }
  EXPECT_NE(cost_verdict(report).find(std::string("Most work per hour: 1x ") + test::kH100 + ","), std::string::npos)
      << cost_verdict(report);
  const std::string text = cost_to_json(report, cost_verdict(report));
  EXPECT_NE(text.find(test::kLimitedH100), std::string::npos);
  EXPECT_EQ(text.find("8.0"), std::string::npos) << "the price of two whole GPUs";
  EXPECT_EQ(cost_page(report, text).qualifier,
            "prices in USD are examples, those of p.toml: edit them to what you pay; some numbers are emulated");
  bool noted = false;
  for (const std::string& note : report.notes) noted = noted || note.find("has no price") != std::string::npos;
  EXPECT_TRUE(noted);
}

TEST(Cost, RefusesWhatCannotBeCompared) {
  CostRun virtual_run = crossing();
  virtual_run.study->device_kind = "cpu-virtual";
  EXPECT_THROW(summarise_cost({crossing("a"), virtual_run}, prices(kRented)), Error);
  EXPECT_THROW(summarise_cost({{"empty", std::nullopt, {}}}, prices(kRented)), Error);
  const CostReport unpriced = summarise_cost({crossing()}, prices("[[device]]\nmatch = \"H100\"\nhourly_price = 1\n"));
  EXPECT_FALSE(unpriced.rows[0].work_per_price);
  EXPECT_EQ(unpriced.rows[1].gain->payoff, Payoff::unclear);
  ASSERT_FALSE(unpriced.notes.empty());
  EXPECT_NE(unpriced.notes[0].find("no price of 'GPU_X 80GB'"), std::string::npos);
  ASSERT_EQ(unpriced.break_evens.size(), 1u);
  EXPECT_TRUE(unpriced.break_evens[0].faster);  // by time there is one still
  EXPECT_FALSE(unpriced.break_evens[0].by_price);
}

TEST(Cost, TextMarkdownPageAndChartSayTheSame) {
  const CostReport report = summarise_cost({crossing()}, prices(kOwned));
  const std::string text = text_page(cost_page(report, "")), markdown = markdown_page(cost_page(report, ""));
  EXPECT_EQ(text.rfind(cost_verdict(report), 0), 0u);
  EXPECT_NE(markdown.find("\n> Several devices pay in 1, do not pay in 2 of 3"), std::string::npos) << markdown;
  for (const std::string& shown : {text, markdown})
    for (const char* words : {"EUR/h", "p.toml", "edit them", "modelled", "never beyond them"})
      EXPECT_NE(shown.find(words), std::string::npos) << words << "\n" << shown;
  const Page page = cost_page(report, "{}");
  EXPECT_EQ(page.verdict, cost_verdict(report));
  ASSERT_FALSE(page.sections.empty());
  ASSERT_EQ(page.sections[0].charts.size(), 1u);
  const Chart& chart = page.sections[0].charts[0];
  for (const auto& row : chart.table.rows) EXPECT_EQ(row.size(), chart.table.columns.size());
  EXPECT_EQ(chart.table.rows.size(), 7u);  // six rows and one break-even
  EXPECT_NE(chart.summary.find("Break-even of"), std::string::npos) << chart.summary;
}

}  // namespace
}  // namespace amdahl
