// Text of pages: how tables fit 80 and 120 columns, and what is left out.
#include "report/page/text_page.h"

#include <gtest/gtest.h>

#include "amdahl/report.h"
#include "report/common/aligned_table.h"
#include "report/study/summary.h"
#include "report_records.h"
#include "study_texts.h"

namespace amdahl {
namespace {

const std::string kReason = "UNCLEAR (not settled by more runs: a difference of 0.3 % is too small for their spread)";

/// Three rows, of which one has a long reason; `columns` further numbers widen it.
Page page_of(int columns) {
  Page page;
  page.verdict = "One is enough.";
  page.qualifier = "measured on CPU virtual devices, not GPUs";
  page.facts = {"2.00x: twice"};
  PageTable table{"Every cell",
                  {{{"batch", "Global batch"},
                    {"devices", "Devices"},
                    {"speed", "Speedup (ratio)"},
                    {"low", "from"},
                    {"high", "to"},
                    {"verdict", "Verdict"}},
                   {}}};
  for (int i = 0; i < columns; ++i) table.table.columns.push_back({"c", "Another number (us)"});
  for (int64_t row = 1; row <= 3; ++row) {
    std::vector<TableValue> cells{int64_t{16} << (4 * row),
                                  int64_t{2},
                                  1.5 * static_cast<double>(row),
                                  1.4,
                                  1.6,
                                  row == 2 ? kReason : std::string("FASTER")};
    if (row == 3) cells[3] = cells[4] = {};
    for (int i = 0; i < columns; ++i) cells.emplace_back(1000.0 * static_cast<double>(row + i));
    table.table.rows.push_back(std::move(cells));
  }
  page.sections = {{"s", "Section", {"A sentence."}, {}, {std::move(table)}}};
  page.notes = {"a note"};
  page.provenance = {{"Host", "node"}};
  return page;
}

size_t widest_line(const std::string& text) {
  size_t widest = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    widest = std::max(widest, display_width(std::string_view(text).substr(at, end - at)));
    at = end + 1;
  }
  return widest;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(TextPage, VerdictFactsSectionsAndNotesInOrder) {
  const std::string text = text_page(page_of(0));
  EXPECT_TRUE(
      text.starts_with("One is enough.\nMeasured on CPU virtual devices, not GPUs.\n- 2.00x: twice\n\n"
                       "Section\nA sentence.\n\nEvery cell\ncommon: Devices: 2\n"))
      << text;
  EXPECT_TRUE(text.ends_with("\nNotes\na note\n")) << text;
  EXPECT_FALSE(has(text, "node")) << "provenance is left out";
}

TEST(TextPage, AnIntervalIsInTheColumnOfItsValue) {
  const std::string text = text_page(page_of(0));
  EXPECT_TRUE(has(text, "Speedup (ratio) [95 % CI]")) << text;
  EXPECT_TRUE(has(text, "1.500 [1.400, 1.600]  FASTER")) << text;
  EXPECT_TRUE(has(text, "4.500 [n/a]")) << text;
}

TEST(TextPage, LongReasonsAreFootnotes) {
  const std::string text = text_page(page_of(0));
  EXPECT_TRUE(has(text, "UNCLEAR [1]\n")) << text;
  EXPECT_TRUE(has(text, "\n[1] " + kReason + "\n")) << text;
}

TEST(TextPage, FitsTheTerminal) {
  for (const int columns : {0, 1, 2, 4, 8, 16})
    for (const int width : {80, 120}) {
      const std::string text = text_page(page_of(columns), {width});
      EXPECT_LE(widest_line(text), static_cast<size_t>(width)) << text;
      EXPECT_TRUE(has(text, "4.500") && has(text, "4,096")) << text;
      EXPECT_EQ(has(text, "Another") && has(text, "3,000"), columns > 0) << text;
    }
}

TEST(TextPage, HeadsAreBrokenBeforeATableIsStacked) {
  EXPECT_TRUE(has(text_page(page_of(2), {80}), "Another")) << text_page(page_of(2), {80});
  EXPECT_FALSE(has(text_page(page_of(2), {80}), "Another number (us): ")) << text_page(page_of(2), {80});
  const std::string stacked = text_page(page_of(16), {80});
  EXPECT_TRUE(has(stacked, "\nGlobal batch: 256\n  Speedup (ratio) [95 % CI]: 1.500 [1.400, 1.600]; Verdict: FASTER;"))
      << stacked;
}

TEST(TextPage, LongNamesOfRowsAreBrokenAtCommas) {
  Page page = page_of(1);
  DataTable& table = page.sections[0].tables[0].table;
  for (size_t i = 0; i < table.rows.size(); ++i)
    table.rows[i][0] = "pp" + std::to_string(i) + ",m64,recompute=selective,gpipe,split=flops";
  const std::string text = text_page(page, {80});
  EXPECT_TRUE(has(text, "\npp1,m64,recompute=selective,") && has(text, "\n  gpipe,split=flops")) << text;
  EXPECT_LE(widest_line(text), 80u);
  EXPECT_TRUE(has(text_page(page, {120}), "\npp1,m64,recompute=selective,gpipe,split=flops  ")) << "there is room";
}

TEST(TextPage, ATableBecomesTwoBeforeItIsStacked) {
  const std::string text = text_page(page_of(5), {80});
  size_t heads = 0;
  for (size_t at = text.find("\n   256  "); at != std::string::npos; at = text.find("\n   256  ", at + 1)) ++heads;
  EXPECT_EQ(heads, 2u) << text;
  Page page = page_of(5);
  page.sections[0].tables[0].table.rows[1][0] = int64_t{256};
  EXPECT_TRUE(has(text_page(page, {80}), "Global batch: 256\n")) << "names repeat: " << text_page(page, {80});
}

TEST(TextPage, AStudyFitsTheTerminal) {
  const StudySummary summary = summarise_study(test::sample_study());
  for (const int width : {80, 120}) {
    const std::string text = test::study_text(summary, {width});
    EXPECT_LE(widest_line(text), static_cast<size_t>(width)) << text;
    EXPECT_TRUE(has(text, "multi-GPU beneficial") && has(text, "single GPU preferred")) << text;
  }
}

TEST(TextPage, WideCharactersTakeTwoColumns) {
  EXPECT_EQ(display_width("ab"), 2u);
  EXPECT_EQ(display_width("模型"), 4u);
  EXPECT_EQ(display_width("e\u0301±"), 2u);
  EXPECT_EQ(aligned_table({{"模型", "1"}, {"abcde", "2"}}), "模型   1\nabcde  2\n");
  Page page = page_of(0);
  page.sections[0].tables[0].table.rows[0][5] = std::string("速い");
  const std::string text = text_page(page, {80});
  EXPECT_TRUE(has(text, "速い")) << text;
  EXPECT_LE(widest_line(text), 80u);
}

TEST(TextPage, SignsBeyondAsciiAreReplaced) {
  Page page;
  page.verdict = "gpu 0 → gpu 1: 5 ± 1";
  EXPECT_EQ(text_page(page), "gpu 0 -> gpu 1: 5 +- 1\n");
  EXPECT_EQ(text_page(page, {0, Charset::utf8}), page.verdict + "\n");
  page.verdict = "a\x1b[31mb\nc";
  EXPECT_EQ(text_page(page), "a\\x1b[31mb\\x0ac\n");
}

TEST(TextPage, ATableWithoutRowsSaysSo) {
  Page page = page_of(0);
  page.sections[0].tables[0].table.rows.clear();
  EXPECT_TRUE(has(text_page(page, {80}), "Every cell\nno rows\n")) << text_page(page, {80});
}

TEST(TextPage, DetailsAreLeftOut) {
  Page page = page_of(0);
  page.sections[0].details = {"a detail"};
  EXPECT_FALSE(has(text_page(page), "a detail"));
  EXPECT_TRUE(has(markdown_page(page, {}, ""), "a detail"));
  page.sections[0].tables[0].in_text = false;
  EXPECT_FALSE(has(text_page(page), "Every cell"));
  page.sections[0].tables[0].in_pages = false;
  EXPECT_FALSE(has(markdown_page(page, {}, ""), "Every cell"));
  page.sections[0].in_text = false;
  EXPECT_FALSE(has(text_page(page), "Section"));
}

TEST(WrappedLines, BreakAtSpacesOnly) {
  EXPECT_EQ(wrapped_lines("one two three", 7), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(wrapped_lines("one two three", 7, 2), (std::vector<std::string>{"one two", "  three"}));
  EXPECT_EQ(wrapped_lines("indivisible a", 5), (std::vector<std::string>{"indivisible", "a"}));
  EXPECT_EQ(wrapped_lines("one two", 0), (std::vector<std::string>{"one two"}));
  EXPECT_EQ(wrapped_lines("", 5), (std::vector<std::string>{""}));
}

TEST(FittedLines, KeepTheirIndentation) {
  EXPECT_EQ(fitted_lines("short\n  one two three\n", 9), "short\n  one two\n    three\n");
  EXPECT_EQ(fitted_lines("  --name N  one two", 15, 4), "  --name N  one\n      two\n");
  EXPECT_EQ(fitted_lines("one two three\n", 0), "one two three\n");
}

}  // namespace
}  // namespace amdahl
