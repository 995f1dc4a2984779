// Numbers in other spellings, text in other encodings, and tables that contain them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "errors.h"
#include "files/number_spelling.h"
#include "files/text_encoding.h"
#include "train/csv.h"

namespace amdahl {
namespace {

TEST(NumberSpelling, OneTextUnderTwoConventions) {
  struct Case {
    const char* text;
    double point, comma;  // NaN: not readable so
  };
  const double no = std::nan("");
  const Case cases[] = {{"1,5", no, 1.5},
                        {"-12,25", no, -12.25},
                        {"1,234", 1234, 1.234},
                        {"1.234", 1.234, 1234},
                        {"0,123", no, 0.123},
                        {"1,234.5", 1234.5, no},
                        {"1.234,5", no, 1234.5},
                        {"1,234,567", 1234567, no},
                        {"1.234.567", no, 1234567},
                        {"12,34,567", 1234567, no},
                        {"1 234,5", no, 1234.5},
                        {"1'234.50", 1234.5, no},
                        {"1_000_000", 1e6, 1e6},
                        {"1\xC2\xA0"
                         "234",
                         1234, 1234},
                        {"1\xE2\x80\xAF"
                         "234,5",
                         no, 1234.5},
                        {"\xE2\x88\x92"
                         "5",
                         -5, -5},
                        {"\xE2\x80\x93"
                         "2.5",
                         -2.5, no},
                        {"$1,234.50", 1234.5, no},
                        {"-$5", -5, -5},
                        {"$-5", -5, -5},
                        {"($5.25)", -5.25, no},
                        {"12,50 \xE2\x82\xAC", no, 12.5},
                        {"\xC2\xA3"
                         "3",
                         3, 3},
                        {"USD 7", 7, 7},
                        {"12.5%", 12.5, no},
                        {"12 %", 12, 12},
                        {" 5 ", 5, 5},
                        {"1,5e3", no, 1500},
                        {"1,2,3", no, no},
                        {"1.2.3", no, no},
                        {"12,3456,789", no, no},
                        {"1234,567.8", no, no},
                        {"2020-01-05", no, no},
                        {"5 kg", no, no},
                        {"a1", no, no},
                        {"--5", no, no},
                        {"1,", no, 1},
                        {"", no, no},
                        {"%", no, no},
                        {"-", no, no}};
  for (const Case& tried : cases) {
    const SpelledNumber number = spell_number(tried.text);
    EXPECT_EQ(number.with_point, !std::isnan(tried.point)) << tried.text;
    EXPECT_EQ(number.with_comma, !std::isnan(tried.comma)) << tried.text;
    if (number.with_point) {
      EXPECT_EQ(number.point, tried.point) << tried.text;
    }
    if (number.with_comma) {
      EXPECT_EQ(number.comma, tried.comma) << tried.text;
    }
  }
}

std::string with_groups(int64_t value, const std::string& mark) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, mark);
  return digits;
}

class SpelledTables : public testing::Test {
 protected:
  std::string path_ = testing::TempDir() + "amdahl_spelled_" + std::to_string(getpid()) + ".csv";
  void TearDown() override { std::filesystem::remove(path_); }

  CsvOptions file(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    CsvOptions options;
    options.path = path_;
    options.target_columns = {"y"};
    options.task = CsvOptions::Task::regression;
    return options;
  }
  std::string refused(const std::string& bytes) const {
    const CsvOptions options = file(bytes);
    const Error error = error_of([&] { load_csv(options); });
    EXPECT_EQ(error.cause(), Cause::data_corrupt) << error.line();
    return error.line();
  }
};

// A column of numbers, each spelled in one of two ways that belong to one convention.
TEST_F(SpelledTables, MixedSpellingsOfOneConventionAreNumbers) {
  struct Style {
    const char* name;
    std::function<std::string(int64_t whole, int hundredths)> spell;
  };
  const auto plain = [](int64_t whole, int part) { return fmt::format("{}.{:02}", whole, part); };
  const Style styles[] = {
      {"decimal comma", [](int64_t w, int p) { return p == 0 ? std::to_string(w) : fmt::format("{},{:02}", w, p); }},
      {"European thousands", [](int64_t w, int p) { return fmt::format("{},{:02}", with_groups(w, "."), p); }},
      {"blanks", [](int64_t w, int p) { return fmt::format("{},{:02}", with_groups(w, " "), p); }},
      {"thousands",
       [&](int64_t w, int p) { return p % 2 ? plain(w, p) : fmt::format("{}.{:02}", with_groups(w, ","), p); }},
      {"currency", [&](int64_t w, int p) { return (p % 2 ? "" : "$") + plain(w, p); }},
      {"euro", [&](int64_t w, int p) { return fmt::format("{},{:02} \xE2\x82\xAC", with_groups(w, "."), p); }},
      {"percent", [&](int64_t w, int p) { return plain(w, p) + "%"; }},
      {"apostrophes", [&](int64_t w, int p) { return fmt::format("{}.{:02}", with_groups(w, "\xE2\x80\x99"), p); }},
      {"blanks around", [&](int64_t w, int p) { return (p % 2 ? "" : "\xC2\xA0") + plain(w, p) + (p % 3 ? "" : " "); }},
  };
  std::mt19937 random(11);
  for (const Style& style : styles)
    for (int trial = 0; trial < 10; ++trial) {
      SCOPED_TRACE(style.name);
      std::string text = "x;y\n";
      std::vector<float> values;
      for (int i = 0; i < 30; ++i) {
        const auto whole = static_cast<int64_t>(i == 0 ? 1'234'567 : random() % 20'000);
        const int part = static_cast<int>(i < 4 ? i : random() % 100);
        const bool negative = random() % 3 == 0;
        values.push_back(static_cast<float>((negative ? -1 : 1) * (static_cast<double>(whole) + part / 100.0)));
        const char* minus = random() % 2 == 0 ? "\xE2\x88\x92" : "-";
        text += fmt::format("\"{}{}\";{}.5\n", negative ? minus : "", style.spell(whole, part), i);
      }
      const Dataset data = load_csv(file(text));
      ASSERT_EQ(data.input_width, 1) << text;
      ASSERT_EQ(data.num_rows, 30);
      for (size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(static_cast<double>(data.features[i]) + data.feature_origins[0], static_cast<double>(values[i]),
                    0.1)
            << text;
      ASSERT_EQ(data.notes.size(), 1u) << text;
      EXPECT_NE(data.notes[0].find("is read as"), std::string::npos) << data.notes[0];
    }
}

TEST_F(SpelledTables, ContradictionsAreRefusedWithLineAndColumn) {
  const auto expect = [&](const std::string& bytes, const std::vector<std::string>& words) {
    const std::string line = refused(bytes);
    for (const std::string& word : words) EXPECT_NE(line.find(word), std::string::npos) << word << " in " << line;
  };
  expect("x;y\n1,5;1\n2.5;2\n3;3\n", {"line 3, column 1 'x'", "'2.5' has a decimal point", "'1,5' in line 2"});
  expect("x;y\n1,234;1\n12;2\n3;3\n", {"line 2, column 1 'x'", "'1,234' may be 1.234 or 1234"});
  expect("x;y\n0.5;1\n12%;2\n3;3\n", {"line 3, column 1 'x'", "percent"});
  expect(
      "x;y\n$5;1\n\xE2\x82\xAC"
      "7;2\n3;3\n",
      {"line 3, column 1 'x'", "another one"});
  expect("x;y\n1;1\n2;0,5\n3;0.5\n", {"line 4, column 2 'y'"});  // targets as well
}

TEST_F(SpelledTables, MarkersOfMissingValuesAreNoCategories) {
  for (const char* marker : {"-", "--", ".", "*", "n.a.", "missing", "\xE2\x80\x94"})
    for (const int every : {2, 3, 7}) {
      SCOPED_TRACE(fmt::format("'{}' in one of {} rows", marker, every));
      std::string text = "age,y\n";
      for (int i = 0; i < 60; ++i) text += fmt::format("{},{}.5\n", i % every == 0 ? marker : std::to_string(i), i);
      const std::string line = refused(text);
      EXPECT_NE(line.find("line 2, column 1 'age'"), std::string::npos) << line;
      EXPECT_NE(line.find("`missing_values`"), std::string::npos) << line;
      CsvOptions options = file(text);
      options.table.missing_values = {marker};
      options.missing = CsvOptions::Missing::drop_row;
      const Dataset data = load_csv(options);
      EXPECT_EQ(data.input_width, 1);
      EXPECT_EQ(data.num_rows, 60 - (60 + every - 1) / every);
    }
  EXPECT_NE(refused("stars,y\n1,1\n2,2\nunknown,3\n3,4\n4,5\n5,6\nunknown,7\n").find("line 4, column 1"),
            std::string::npos);
  // Words that are categories stay such, and a note says that numbers among them do.
  const Dataset mixed = load_csv(file("floor,y\nground,1\nattic,2\ncellar,3\nmiddle,4\n1,5\n2,6\n"));
  EXPECT_EQ(mixed.input_width, 6);
  ASSERT_EQ(mixed.notes.size(), 1u);
  EXPECT_NE(mixed.notes[0].find("'ground' in line 2 is a word"), std::string::npos) << mixed.notes[0];
}

TEST_F(SpelledTables, PandasMarkersAreMissing) {
  for (const char* marker :
       {"",    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
        "N/A", "NA",   "NULL",     "NaN", "None",    "n/a",      "nan",  "null", "?",      "\" NA \""}) {
    const std::string line = refused(fmt::format("x,y\n{},1\n2,2\n3,3\n", marker));
    EXPECT_NE(line.find("line 2, column 1 'x'"), std::string::npos) << line;
    EXPECT_NE(line.find("missing value"), std::string::npos) << line;
  }
  CsvOptions options = file("x,y\n-999,1\n-999.0,2\n5,3\n7,4\n");
  options.table.missing_values = {"-999"};
  options.missing = CsvOptions::Missing::drop_row;
  EXPECT_EQ(load_csv(options).features, (std::vector<float>{5, 7}));
}

TEST_F(SpelledTables, TheHeaderIsDecidedAndToldWhereItMayBeWrong) {
  const auto names = [&](const std::string& bytes, const std::string& target, HeaderChoice header) {
    CsvOptions options = file(bytes);
    options.target_columns = {target};
    options.table.header = header;
    const Dataset data = load_csv(options);
    return fmt::format("{} rows, {}, {} notes", data.num_rows, data.feature_names.front(), data.notes.size());
  };
  const std::string years = "region,2019,2020\nr0,0.5,0.25\nr1,1.5,1.25\nr0,2.5,2.25\nr1,3.5,3.25\n";
  EXPECT_EQ(names(years, "2020", HeaderChoice::automatic), "4 rows, region=r0, 1 notes");
  EXPECT_EQ(names(years, "2020", HeaderChoice::present), "4 rows, region=r0, 0 notes");
  EXPECT_EQ(names(years, "c2", HeaderChoice::absent), "5 rows, c0=r0, 0 notes");
  const CsvOptions told_later = [&] {
    CsvOptions options = file(years);
    options.target_columns = {"c2"};
    return options;
  }();
  EXPECT_EQ(error_of([&] { load_csv(told_later); }).cause(), Cause::usage);  // not the header as a row
  const std::string numbers = "2019,2020\n0.5,0.25\n1.5,1.25\n";
  EXPECT_EQ(names(numbers, "2020", HeaderChoice::automatic), "2 rows, 2019, 1 notes");
  EXPECT_EQ(names(numbers, "c1", HeaderChoice::automatic), "3 rows, c0, 1 notes");
  EXPECT_EQ(names("0.5,0.25\n1.5,1.25\n", "c1", HeaderChoice::automatic), "2 rows, c0, 0 notes");
  EXPECT_EQ(names("id,1,2\n0,5,6\n1,7,8\n", "2", HeaderChoice::automatic), "2 rows, id, 1 notes");
  EXPECT_EQ(names("red,1,2\nred,5,6\nblue,7,8\n", "c2", HeaderChoice::automatic), "3 rows, c0=blue, 1 notes");
}

TEST_F(SpelledTables, FeaturesAreRelativeWhereFloatsLoseTheirDifferences) {
  std::string text = "t,ns,z,y\n";
  for (int i = 0; i < 64; ++i)
    text += fmt::format("{},{},{}.25,{}.5\n", 1'700'000'000 + i, 1'700'000'000'000'000'000 + 1000 * i, i, i);
  Dataset data = load_csv(file(text));
  std::vector<int32_t> all(64);
  for (int i = 0; i < 64; ++i) all[static_cast<size_t>(i)] = i;
  standardise(data, all);
  const double deviation = std::sqrt((64.0 * 64 - 1) / 12);
  for (int i = 0; i < 64; ++i)
    for (size_t f = 0; f < 3; ++f)
      EXPECT_NEAR(static_cast<double>(data.features[static_cast<size_t>(i) * 3 + f]), (i - 31.5) / deviation,
                  f == 1 ? 0.02 : 1e-6);  // doubles are 256 apart at 1.7e18
}

TEST_F(SpelledTables, TargetsSayWhatTheyLoseAsFloats) {
  std::string text = "x,y\n";
  for (int i = 0; i < 20; ++i) text += fmt::format("{},{}.5\n", i, 1'700'000'000 + i);
  const Dataset data = load_csv(file(text));
  ASSERT_EQ(data.warnings.size(), 1u);
  EXPECT_NE(data.warnings[0].find("column 2 'y': targets change by up to 19.5 by"), std::string::npos)
      << data.warnings[0];
}

TEST_F(SpelledTables, CommentsAndSeparatorLines) {
  const auto load = [&](const std::string& bytes) {
    const Dataset data = load_csv(file(bytes));
    return fmt::format("{} rows of {}: {} {}", data.num_rows, data.input_width, data.features[0], data.targets[0]);
  };
  EXPECT_EQ(load("sep=;\nx;y\n0,5;1\n1,5;2\n"), "2 rows of 1: 0.5 1");
  EXPECT_EQ(load("sep=|\r\nx|y\r\n0.5|1\r\n"), "1 rows of 1: 0.5 1");
  EXPECT_EQ(load("# made by hand\n# on a Monday, late\nx,y\n0.5,1\n# in between\n1.5,2\n"), "2 rows of 1: 0.5 1");
  EXPECT_EQ(load("# made by hand\n# x y z\n0.5 1 3\n1.5 2 4\n"), "2 rows of 2: 0.5 1");
  EXPECT_EQ(load("#x,y\r0.5,1\r1.5,2\r"), "2 rows of 1: 0.5 1");
  EXPECT_EQ(load("x  y\n 0.5   1 \n1.5\t2\n"), "2 rows of 1: 0.5 1");
  EXPECT_EQ(load("x|y\n0.5|1\n"), "1 rows of 1: 0.5 1");
  EXPECT_NE(refused("x,y\n0.5,1\n# a comment\n1.5,2\n").find("line 3"), std::string::npos);
  const CsvOptions no_header = [&] {
    CsvOptions options = file("0,5;1,5\n1,0;2,5\n2,5;3,5\n");
    options.target_columns = {"c1"};
    return options;
  }();
  EXPECT_EQ(load_csv(no_header).features, (std::vector<float>{0.5f, 1, 2.5f}));
}

std::string as_units(const std::string& text, size_t width, bool big, const std::string& mark) {
  std::string bytes = mark;
  for (const char c : text) {
    std::string unit(width, '\0');
    unit[big ? width - 1 : 0] = c;
    bytes += unit;
  }
  return bytes;
}

TEST(TextEncoding, WideTextIsRecognised) {
  using namespace std::string_literals;
  const std::string text = "some text, and more of it\n1.5;2.5\n";
  EXPECT_EQ(wide_encoding(text), "");
  EXPECT_EQ(wide_encoding(text + "\xC3\xA9"), "");
  EXPECT_EQ(wide_encoding(""), "");
  for (const bool big : {false, true})
    for (const bool marked : {false, true}) {
      EXPECT_EQ(wide_encoding(as_units(text, 2, big, marked ? (big ? "\xFE\xFF" : "\xFF\xFE") : "")), "UTF-16");
      EXPECT_EQ(wide_encoding(as_units(text, 4, big, marked ? (big ? "\0\0\xFE\xFF"s : "\xFF\xFE\0\0"s) : "")),
                "UTF-32");
    }
  const Error error = error_of([&] { require_text(as_units(text, 2, false, ""), "a.txt"); });
  EXPECT_EQ(error.cause(), Cause::data_corrupt);
  EXPECT_NE(error.line().find("a.txt, line 1: the text is UTF-16; try: convert it: iconv -f UTF-16"), std::string::npos)
      << error.line();
  EXPECT_NE(error_of([] { require_text("ab\n\0c\n"s, "a.txt"); }).line().find("line 2: a NUL"), std::string::npos);
}

}  // namespace
}  // namespace amdahl
