// Pages: charts from summaries, the sentence at the head, HTML and Markdown of it, several pages as one.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "chart/document.h"
#include "chart/spec_text.h"
#include "chart/study_charts.h"
#include "page_checks.h"
#include "report/page/html_page.h"
#include "report/page/markdown_page.h"
#include "report/study/page.h"
#include "report/study/summary.h"
#include "report/study/verdict.h"
#include "report_records.h"
#include "verbs/report/report_pages.h"

namespace amdahl {
namespace {

using test::fake_record;
using test::FakeCell;

// One device needs `single_us`, two `multi_us`, at each of these batches.
struct BatchTimes {
  int64_t batch;
  double single_us, multi_us;
};

std::vector<Record> records_of(const std::vector<BatchTimes>& batches, const std::string& model = "medium",
                               int64_t parameters = 54'403) {
  std::vector<Record> records;
  for (const BatchTimes& times : batches)
    for (const int64_t devices : {1, 2}) {
      FakeCell cell;
      cell.model = model;
      cell.num_parameters = parameters;
      cell.global_batch = times.batch;
      cell.devices = devices;
      cell.step_us = devices == 1 ? times.single_us : times.multi_us;
      for (int64_t run = 0; run < cell.num_runs; ++run) records.push_back(fake_record(cell, run));
    }
  return records;
}

const std::vector<BatchTimes> kCrossing{{64, 100, 130}, {256, 200, 200}, {1024, 800, 500}, {4096, 3200, 1700}};

StudySummary crossing() { return summarise_study(records_of(kCrossing)); }

TEST(Charts, SpeedupHasARowAComparisonAndTheBaselines) {
  const StudySummary summary = crossing();
  const auto chart = speedup_chart(summary, groups_of(summary).front());
  ASSERT_TRUE(chart);
  ASSERT_EQ(chart->table.rows.size(), 8U);
  size_t compared = 0;
  for (const auto& row : chart->table.rows) {
    if (std::get<int64_t>(row[test::column_index(*chart, "devices")]) == 1) {
      EXPECT_EQ(std::get<double>(row[test::column_index(*chart, "speedup")]), 1.0);
      EXPECT_TRUE(std::holds_alternative<std::monostate>(row[test::column_index(*chart, "low")]));
      continue;
    }
    const StudyComparison& c = summary.comparisons[compared++];
    EXPECT_EQ(std::get<double>(row[test::column_index(*chart, "speedup")]), c.test.ratio);
    EXPECT_EQ(std::get<double>(row[test::column_index(*chart, "low")]), c.test.ci->low);
    EXPECT_EQ(std::get<double>(row[test::column_index(*chart, "ideal")]), 2.0);
  }
  EXPECT_EQ(compared, 4U);
}

TEST(Charts, CrossoverIsWhereAllLargerBatchesPay) {
  const StudySummary summary = crossing();
  const StudyGroup group = groups_of(summary).front();
  EXPECT_EQ(crossover_batch(summary, group, 2), (SizeCrossover{1024, 256, 4096}));
  EXPECT_EQ(crossover_batch(summary, group, 4), std::nullopt);
  const auto pays_always = summarise_study(records_of({{64, 100, 60}, {256, 200, 110}}));
  EXPECT_EQ(crossover_batch(pays_always, group, 2), std::nullopt) << "nothing is crossed";
  const auto falls_back = summarise_study(records_of({{64, 100, 60}, {256, 200, 300}, {512, 400, 200}}));
  const SizeCrossover last{512, 256, 512};
  EXPECT_EQ(crossover_batch(falls_back, group, 2), last);
  EXPECT_EQ(crossover_text(last, "batch"), "batch 512, the largest measured, not at 256");
  EXPECT_EQ(crossover_text({1024, 256, 4096}, "batch"), "batch >= 1,024, not at 256");
  EXPECT_NE(throughput_chart(falls_back, group)->summary.find("2 GPUs faster at batch 512, the largest measured"),
            std::string::npos);
  const auto ends_low = summarise_study(records_of({{64, 100, 60}, {256, 200, 300}}));
  EXPECT_EQ(crossover_batch(ends_low, group, 2), std::nullopt);
}

TEST(StudyPage, ARowWhereOneDeviceJumpsSaysSo) {
  const auto text_of = [](const std::vector<BatchTimes>& batches) {
    const std::vector<Record> records = records_of(batches);
    return markdown_page(study_page(summarise_study(records), records));
  };
  const std::string text = text_of({{64, 100, 130}, {128, 210, 150}, {256, 220, 280}});
  size_t rows = 0;
  for (size_t at = text.find("one device jumps: "); at != std::string::npos;
       at = text.find("one device jumps: ", at + 1)) {
    ++rows;
    EXPECT_TRUE(text.substr(text.rfind('\n', at) + 1).starts_with("| 128 |")) << text;
  }
  EXPECT_EQ(rows, 1U) << text;
  EXPECT_EQ(text_of(kCrossing).find("one device jumps"), std::string::npos);
  EXPECT_EQ(text_of(kCrossing).find("| Note |"), std::string::npos);
}

TEST(Charts, PartsOfAStepAddUpToIt) {
  const StudySummary summary = crossing();
  const auto chart = account_chart(summary, groups_of(summary).front());
  ASSERT_TRUE(chart);
  std::map<std::pair<std::string, std::string>, double> sums, steps;
  for (const auto& row : chart->table.rows) {
    const std::pair key{std::get<std::string>(row[test::column_index(*chart, "batch")]),
                        std::get<std::string>(row[test::column_index(*chart, "configuration")])};
    sums[key] += std::get<double>(row[test::column_index(*chart, "time_us")]);
    steps[key] = std::get<double>(row[test::column_index(*chart, "step_us")]);
  }
  ASSERT_EQ(sums.size(), 8U);
  for (const auto& [key, sum] : sums) EXPECT_NEAR(sum, steps[key], 1e-3 * steps[key]) << key.first << " " << key.second;
}

TEST(Charts, MapNeedsTwoModels) {
  EXPECT_TRUE(crossover_maps(crossing()).empty());
  std::vector<Record> records = records_of(kCrossing);
  for (const Record& record : records_of(kCrossing, "large", 2'021'379)) records.push_back(record);
  const std::vector<Chart> maps = crossover_maps(summarise_study(records));
  ASSERT_EQ(maps.size(), 1U);
  EXPECT_EQ(maps[0].table.rows.size(), 8U);
}

TEST(Charts, AnOutlierDoesNotSquashEveryRun) {
  const StudySummary summary = crossing();
  CellSamples cell{summary.cells.front().key, Origin::measured, 100, {}, {}};
  for (const double time : {99.0, 99.5, 100.0, 100.5, 101.0, 101.5, 191.3}) {
    cell.step_time_us.push_back(time);
    cell.outlier.push_back(time > 102);
  }
  const Chart chart = *samples_chart(summary, group_of(cell.key), {cell});
  ASSERT_EQ(chart.table.rows.size(), 7U) << "none is dropped";
  const nlohmann::json axis = nlohmann::json::parse(chart.spec)["encoding"]["x"]["scale"]["domain"];
  EXPECT_LT(axis[1].get<double>(), 5) << "the others fill the axis";
  const auto& far = chart.table.rows.back();
  EXPECT_NEAR(std::get<double>(far[test::column_index(chart, "deviation_percent")]), 91.3, 1e-9) << "its value is kept";
  EXPECT_LT(std::get<double>(far[test::column_index(chart, "shown_percent")]), axis[1].get<double>());
  EXPECT_EQ(std::get<std::string>(far[test::column_index(chart, "beyond")]), "at +91.3 %");
  EXPECT_NE(chart.summary.find("beyond the axis"), std::string::npos) << chart.summary;
  cell.step_time_us.back() = 50;  // and so on the other side
  const Chart low = *samples_chart(summary, group_of(cell.key), {cell});
  EXPECT_EQ(std::get<std::string>(low.table.rows.back()[test::column_index(low, "below")]), "at -50.0 %");
  EXPECT_GT(nlohmann::json::parse(low.spec)["encoding"]["x"]["scale"]["domain"][0].get<double>(), -5);
  cell.step_time_us.back() = 101.7, cell.outlier.back() = false;
  EXPECT_EQ(samples_chart(summary, group_of(cell.key), {cell})->summary.find("beyond"), std::string::npos);
}

TEST(Charts, SpecificationsReadOnlyColumnsOfTheirTable) {
  std::vector<Record> records = records_of(kCrossing);
  for (const Record& record : records_of(kCrossing, "large", 2'021'379)) records.push_back(record);
  const Page page = study_page(summarise_study(records), records);
  const std::set<std::string> computed{"doublings", "label"};
  size_t charts = 0;
  for (const PageSection& section : page.sections)
    for (const Chart& chart : section.charts) {
      ++charts;
      std::set<std::string> columns;
      for (const TableColumn& c : chart.table.columns) columns.insert(c.name);
      const std::regex field("\"field\":\"([^\"]+)\"");
      for (std::sregex_iterator at(chart.spec.begin(), chart.spec.end(), field), end; at != end; ++at)
        EXPECT_TRUE(columns.contains((*at)[1].str()) || computed.contains((*at)[1].str()))
            << chart.id << " " << at->str();
      EXPECT_FALSE(chart.summary.empty());
      EXPECT_NO_THROW(chart_document(chart, Scheme::dark));
    }
  EXPECT_EQ(charts, 11U) << "a map and five for each of two models";
}

TEST(Charts, HolesWithoutValueAreRefused) {
  EXPECT_EQ(filled(R"({"a": ["$b", 1]})", {{"b", {{"c", 2}}}}).dump(), R"({"a":[{"c":2},1]})");
  EXPECT_THROW(filled(R"({"a": "$b"})", {}), Error);
  EXPECT_THROW(filled("{", {}), Error);
}

TEST(Charts, LayersWithoutRowsAreDropped) {
  const DataTable table{{{"a", "A"}, {"b", "B"}}, {{std::monostate{}, std::string("no")}}};
  auto spec = filled(R"json({"layer": [{"mark": "line"},
      {"mark": "rule", "transform": [{"filter": "isValid(datum.a)"}]},
      {"mark": "tick", "transform": [{"filter": "datum.b == 'no'"}]},
      {"mark": "point", "transform": [{"filter": "datum.b == 'yes'"}]}]})json",
                     {});
  drop_empty_layers(spec, table);
  ASSERT_EQ(spec["layer"].size(), 2U);
  EXPECT_EQ(spec["layer"][1]["mark"], "tick");
}

TEST(Charts, RowsThatDoNotFitAreRefused) {
  Chart chart;
  chart.id = "x";
  chart.spec = "{}";
  chart.table.columns = {{"a", "A"}, {"b", "B"}};
  chart.table.rows = {{int64_t{1}}};
  EXPECT_THROW(charts_json({&chart}), Error);
  chart.table.rows = {{int64_t{1}, std::string("x")}};
  EXPECT_NE(charts_json({&chart}).find(R"("rows":[[1,"x"]])"), std::string::npos);
  chart.spec = "[]";
  EXPECT_THROW(charts_json({&chart}), Error);
}

TEST(StudyVerdict, SaysFromWhichBatchOn) {
  EXPECT_EQ(study_verdict(crossing())
                .rfind("2 GPUs are faster by 10 % or more at global batch >= 1,024, not at 256: up to 1.8", 0),
            0U)
      << study_verdict(crossing());
  const std::string last =
      study_verdict(summarise_study(records_of({{64, 100, 200}, {256, 200, 400}, {1024, 800, 400}})));
  EXPECT_NE(last.find("at global batch 1,024, the largest measured, not at 256"), std::string::npos) << last;
  // 0.5x at 256 and 2x at 1024: 1x half way in both logarithms.
  EXPECT_TRUE(std::regex_search(last, std::regex("Both take the same time at global batch about 5[0-9]{2}[^(]* "
                                                 "\\(modelled: interpolated between 256 and 1,024\\)")))
      << last;
  const auto all = summarise_study(records_of({{64, 100, 60}, {256, 200, 110}}));
  EXPECT_NE(study_verdict(all).find("in all 2 cases"), std::string::npos) << study_verdict(all);
  const auto none = summarise_study(records_of({{64, 100, 160}, {256, 200, 210}}));
  EXPECT_NE(study_verdict(none).find("stay with one GPU"), std::string::npos) << study_verdict(none);
  const auto mixed = summarise_study(records_of({{64, 100, 60}, {256, 200, 300}}));
  EXPECT_NE(study_verdict(mixed).find("in 1 of 2 cases"), std::string::npos) << study_verdict(mixed);
}

TEST(StudyVerdict, FewRunsAreNoVerdict) {
  StudySummary summary = summarise_study(records_of({{64, 100, 60}, {256, 200, 110}}));
  std::vector<Record> records = records_of({{64, 100, 60}, {256, 200, 110}});
  std::erase_if(records, [](const Record& record) { return std::get<int64_t>(record.axes.at("run")) >= 3; });
  summary = summarise_study(records);
  EXPECT_TRUE(
      study_verdict(summary).starts_with("Too few runs to say whether several GPUs are faster (3 and 3, at least 5): "
                                         "at best 2 are 1.8"))
      << study_verdict(summary);
  EXPECT_EQ(summary.conclusion, "Too few runs in all 2 comparisons.");
}

TEST(StudyVerdict, FactsHaveUnitCountAndInterval) {
  const std::vector<std::string> facts = study_facts(crossing());
  ASSERT_EQ(facts.size(), 3U);
  EXPECT_NE(facts[0].find("n = 5 and 5 runs"), std::string::npos) << facts[0];
  EXPECT_TRUE(std::regex_search(facts[0], std::regex("^1\\.[0-9]{2}x \\[1\\.[0-9]{2}, [12]\\.[0-9]{2}\\]: ")))
      << facts[0];
}

Page small_page() {
  Page page;
  page.title = "A <b> & \"c\"";
  page.qualifier = "emulated";
  page.verdict = "Yes.";
  page.facts = {"2.00x [1.9, 2.1]: twice", "plain"};
  Chart chart;
  chart.id = "c";
  chart.title = "Chart";
  chart.summary = "Rising.";
  chart.origin = Origin::modelled;
  chart.spec = R"({"mark":"point"})";
  chart.table.columns = {{"a", "A"}, {"b", "B"}};
  chart.table.rows = {{int64_t{1234}, std::string("</script>")}, {0.5, {}}};
  page.sections = {{"s", "Section", {"Text | with *marks*"}, {chart}, {}}};
  page.provenance = {{"Host", "h"}};
  page.notes = {"a note"};
  page.embedded_json = R"({"x":"</script>"})";
  return page;
}

// SHA-256 of the empty text, of which the base64 form is well known.
constexpr const char* kEmptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

TEST(HtmlPage, EscapesAndAdmitsByHash) {
  const HtmlAssets assets{{"", kEmptyHash}, {"", kEmptyHash}, {}, "no library"};
  const std::string html = html_page(small_page(), assets);
  EXPECT_NE(html.find("'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"), std::string::npos);
  EXPECT_NE(html.find("<h1>A &lt;b&gt; &amp; &quot;c&quot;</h1>"), std::string::npos);
  EXPECT_NE(html.find("<strong>2.00x <span class=\"whole\">[1.9, 2.1]</span></strong> <span>twice</span>"),
            std::string::npos);
  EXPECT_NE(html.find("Charts are not drawn: no library"), std::string::npos);
  EXPECT_NE(html.find("<span class=\"badge modelled\">modelled</span>"), std::string::npos);
  Page mixed = small_page();
  mixed.sections.front().charts.front().origin = Origin::measured;
  mixed.sections.front().charts.front().with_modelled = true;
  EXPECT_NE(html_page(mixed, assets)
                .find("<span class=\"badge measured\">measured</span><span class=\"badge modelled\">modelled</span>"),
            std::string::npos);
  EXPECT_NE(html.find(R"({"x":"\u003c/script>"})"), std::string::npos);
  EXPECT_NE(html.find("<td class=\"num\">1,234</td>"), std::string::npos);
  EXPECT_EQ(html.find("data-file=\"svg\""), std::string::npos) << "no button for what cannot be drawn";
  size_t scripts = 0;
  for (size_t at = html.find("</script>"); at != std::string::npos; at = html.find("</script>", at + 1)) ++scripts;
  EXPECT_EQ(scripts, 3U) << "charts, records, script";
}

TEST(HtmlPage, LinesBreakBetweenWordsAndNotWithinNumbersAndOptions) {
  Page page = small_page();
  page.verdict = "large-6.9m is 5 % faster (95 % CI [1, 2], n = 5), see --runs and one-sided calls.";
  const std::string html = html_page(page, {{"", kEmptyHash}, {"", kEmptyHash}, {}, "no library"});
  EXPECT_NE(
      html.find("<p class=\"verdict\"><span class=\"whole\">large-6.9m</span> is <span class=\"whole\">5 %</span> "
                "faster <span class=\"whole\">(95 % CI</span> <span class=\"whole\">[1, 2],</span> <span "
                "class=\"whole\">n = 5),</span> see <span class=\"whole\">--runs</span> and one-sided calls.</p>"),
      std::string::npos)
      << html.substr(html.find("<p class=\"verdict\">"), 400);
}

TEST(HtmlPage, TheFootNamesOnlyWhatThePageHas) {
  const HtmlAssets assets{{"", kEmptyHash}, {"", kEmptyHash}, {}, "no library"};
  Page page = small_page();
  EXPECT_NE(html_page(page, assets).find("amdahl-records</code>"), std::string::npos);
  page.embedded_json.clear(), page.provenance.clear();
  const std::string html = html_page(page, assets);
  EXPECT_EQ(html.find("amdahl-records</code>"), std::string::npos);
  EXPECT_EQ(html.find("intervals are 95 %"), std::string::npos) << "predictions have assumed ranges";
}

TEST(HtmlPage, OfThisBuildIsTheSameTwice) {
  const std::string html = html_page(small_page(), html_assets());
  EXPECT_EQ(html, html_page(small_page(), html_assets()));
  EXPECT_LT(html.size(), 1'500'000U);
}

TEST(MarkdownPage, HasTablesWherePicturesAreMissing) {
  const std::string with = markdown_page(small_page(), {{"c", "p/c.svg"}}, "");
  EXPECT_NE(with.find("![Rising.](p/c.svg)"), std::string::npos) << with;
  EXPECT_NE(with.find("<details><summary>Data: 2 rows</summary>"), std::string::npos) << with;
  const std::string without = markdown_page(small_page(), {}, "no Python");
  EXPECT_NE(without.find("Pictures are left out: no Python."), std::string::npos) << without;
  EXPECT_EQ(without.find("<details>"), std::string::npos) << without;
  EXPECT_NE(without.find("| 1,234 |"), std::string::npos) << without;
  EXPECT_NE(without.find("**modelled, not measured**"), std::string::npos) << without;
  EXPECT_NE(without.find("Text \\| with \\*marks\\*"), std::string::npos) << without;
}

TEST(JoinPages, NamesStayUniqueAndQualifiersAreKept) {
  Page plain = small_page();
  plain.qualifier.clear();
  const Page whole = join_pages({small_page(), plain});
  std::set<std::string> names;
  for (const PageSection& section : whole.sections) {
    EXPECT_TRUE(names.insert(section.anchor).second) << section.anchor;
    for (const Chart& chart : section.charts) EXPECT_TRUE(names.insert(chart.id).second) << chart.id;
  }
  EXPECT_EQ(whole.sections.size(), 4U);
  EXPECT_EQ(whole.qualifier, "1 of 2 parts emulated");
  EXPECT_EQ(whole.notes, (std::vector<std::string>{"1: a note", "2: a note"}));
  EXPECT_EQ(join_pages({small_page()}).title, small_page().title);
}

TEST(JoinPages, TheTitleSaysWhatTheRunsAre) {
  std::vector<Page> pages(4, small_page());
  pages[0].subject = {"study", "studies", "large", "4 x NVIDIA H200", 2};
  pages[1].subject = {"study", "studies", "medium", "4 x NVIDIA H200"};
  pages[2].subject = {"link test", "link tests", "", "2 CPU virtual devices"};
  pages[3].subject = {"link test", "link tests", "", "2 CPU virtual devices"};
  const Page whole = join_pages(pages);
  EXPECT_EQ(whole.title, "3 studies of large, medium and 2 link tests on 4 x NVIDIA H200 and 2 CPU virtual devices");
  ASSERT_EQ(whole.parts.size(), 4U);
  for (const auto& [anchor, words] : whole.parts) {
    const auto section = std::find_if(whole.sections.begin(), whole.sections.end(),
                                      [&](const PageSection& s) { return s.anchor == anchor; });
    ASSERT_NE(section, whole.sections.end());
    EXPECT_TRUE(section->begins_part);
    EXPECT_TRUE(words.starts_with(section->title.substr(0, section->title.find(" (")))) << words;
  }
  EXPECT_NE(whole.parts[0].second, whole.parts[1].second) << "pages of one title have numbers";
}

}  // namespace
}  // namespace amdahl
