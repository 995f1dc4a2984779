#include "train/csv.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

#include "files/csv_reader.h"

namespace amdahl {
namespace {

using Header = HeaderChoice;
using Missing = CsvOptions::Missing;
using Task = CsvOptions::Task;

class Csv : public testing::Test {
 protected:
  std::string path_ = testing::TempDir() + "amdahl_csv_" + std::to_string(getpid()) + ".csv";

  void TearDown() override { std::filesystem::remove_all(path_); }

  CsvOptions file(std::string_view bytes, std::vector<std::string> targets = {"y"}) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    CsvOptions options;
    options.path = path_;
    options.target_columns = std::move(targets);
    return options;
  }

  /// The error of loading; fails the test when loading succeeds. Every error must offer a remedy.
  Error refused(const CsvOptions& options) const {
    try {
      load_csv(options);
    } catch (const Error& e) {
      EXPECT_FALSE(e.remedy().empty()) << e.line();
      EXPECT_NE(std::string(e.what()).find(options.path), std::string::npos) << e.line();
      return e;
    }
    ADD_FAILURE() << "this was accepted";
    return Error(Cause::internal, "accepted");
  }

  void expect_refused(const CsvOptions& options, Cause cause, const std::vector<std::string>& words) const {
    const Error e = refused(options);
    EXPECT_EQ(e.cause(), cause) << e.line();
    for (const std::string& word : words)
      EXPECT_NE(e.line().find(word), std::string::npos) << word << " in " << e.line();
  }

  /// Fields of every record, joined by '|'.
  std::vector<std::string> records(std::string_view bytes, char delimiter = ',') const {
    std::ofstream(path_, std::ios::binary) << bytes;
    const CsvText text = read_csv_text(path_);
    CsvReader reader(text, delimiter);
    CsvRow row;
    std::vector<std::string> out;
    while (reader.next(row)) {
      std::string joined = std::to_string(row.line) + ":";
      for (size_t i = 0; i < row.fields.size(); ++i) joined += (i ? "|" : "") + std::string(row.fields[i]);
      out.push_back(joined);
    }
    return out;
  }
};

using Records = std::vector<std::string>;
using Floats = std::vector<float>;
using Names = std::vector<std::string>;

TEST_F(Csv, ReadsTheShippedDigits) {
  CsvOptions options;
  options.path = AMDAHL_SOURCE_DIR "/data/digits.csv";
  options.target_columns = {"label"};
  const Dataset data = load_csv(options);
  EXPECT_EQ(data.name, "digits");
  EXPECT_EQ(data.num_rows, 1797);
  EXPECT_EQ(data.input_width, 64);
  EXPECT_EQ(data.output_width, 10);
  EXPECT_EQ(data.loss, LossKind::softmax_cross_entropy);
  EXPECT_EQ(data.class_names, (Names{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}));
  EXPECT_EQ(data.feature_names.front(), "p00");
  EXPECT_EQ(data.feature_names.back(), "p63");
  EXPECT_EQ(data.targets.size(), 1797u);
  for (const float value : data.features) ASSERT_TRUE(value >= 0 && value <= 16);
  EXPECT_EQ(data.features[2], 5);
  EXPECT_EQ(Floats(data.targets.begin(), data.targets.begin() + 5), (Floats{0, 1, 2, 3, 4}));
}

TEST_F(Csv, SplitsRecordsAsRfc4180Says) {
  EXPECT_EQ(records("a,b\n1,2\n"), (Records{"1:a|b", "2:1|2"}));
  EXPECT_EQ(records("a,b\r\n1,2"), (Records{"1:a|b", "2:1|2"}));
  EXPECT_EQ(records("a,b\r1,2\r"), (Records{"1:a|b", "2:1|2"}));
  EXPECT_EQ(records("\"a,1\",\"say \"\"hi\"\"\"\n"), (Records{"1:a,1|say \"hi\""}));
  EXPECT_EQ(records("\"two\nlines\",x\nnext,y\n"), (Records{"1:two\nlines|x", "3:next|y"}));
  EXPECT_EQ(records("\"two\r\nlines\",x\r\nnext,y\r\n"), (Records{"1:two\r\nlines|x", "3:next|y"}));
  EXPECT_EQ(records(",\n,,\n"), (Records{"1:|", "2:||"}));
  EXPECT_EQ(records("a,\n"), (Records{"1:a|"}));
  EXPECT_EQ(records("  a b , \" c \" \n"), (Records{"1:a b| c "}));
  EXPECT_EQ(records("\"\"\n"), (Records{"1:"}));
  EXPECT_EQ(records("5\" disk,x\n"), (Records{"1:5\" disk|x"}));
  EXPECT_EQ(records("\n\na\n  \nb\n\n"), (Records{"3:a", "5:b"}));
  EXPECT_EQ(records("\xEF\xBB\xBFname,b\n"), (Records{"1:name|b"}));
  EXPECT_EQ(records("a\t \tb\n", '\t'), (Records{"1:a||b"}));
  EXPECT_EQ(records("gr\xC3\xB6\xC3\x9F"
                    "e,1\n"),
            (Records{"1:gr\xC3\xB6\xC3\x9F"
                     "e|1"}));
}

TEST_F(Csv, FindsTheDelimiter) {
  for (const std::string d : {",", ";", "\t"}) {
    const Dataset data = load_csv(file("a" + d + "b" + d + "y\n1" + d + "2" + d + "0.5\n3" + d + "4" + d + "1.5\n"));
    EXPECT_EQ(data.feature_names, (Names{"a", "b"})) << d;
    EXPECT_EQ(data.features, (Floats{1, 2, 3, 4}));
  }
  // Commas inside a semicolon file do not mislead it, nor delimiters inside quotes.
  EXPECT_EQ(load_csv(file("a;y\n\"x,z\";0.5\n\"q,r,s\";1.5\n")).feature_names, (Names{"a=q,r,s", "a=x,z"}));
  CsvOptions told = file("a|y\n1|0.5\n2|1.5\n");
  told.table.delimiter = '|';
  EXPECT_EQ(load_csv(told).features, (Floats{1, 2}));
}

TEST_F(Csv, TellsAHeaderFromData) {
  EXPECT_EQ(load_csv(file("1,2.5\n3,4.5\n", {"c1"})).feature_names, (Names{"c0"}));
  EXPECT_EQ(load_csv(file("1,2.5\n3,4.5\n", {"c1"})).num_rows, 2);
  EXPECT_EQ(load_csv(file("a,y\n3,4.5\n")).num_rows, 1);
  EXPECT_EQ(load_csv(file(",x,y\n0,3,4.5\n")).feature_names, (Names{"c0", "x"}));  // an index column without a name
  CsvOptions years = file("2020,2021\n1,2.5\n3,4.5\n", {"2021"});
  years.table.header = Header::present;
  EXPECT_EQ(load_csv(years).feature_names, (Names{"2020"}));
  CsvOptions words = file("red,0.5x\nblue,1.5x\n", {"c1"});
  words.table.header = Header::absent;
  EXPECT_EQ(load_csv(words).num_rows, 2);
  expect_refused(file("1,2\n3,4\n", {"y"}), Cause::usage, {"no column 'y'", "c0, c1", "no header"});
}

TEST_F(Csv, ReadsNumbersAsWritten) {
  const Dataset data = load_csv(file("a,y\n+1.5,0.5\n-2e-3,1.5\n.25,0.25\n7.,1e2\n\"8\",0.75\n1e-400,0.1\n1E3,-0\n"));
  EXPECT_EQ(data.features, (Floats{1.5f, -0.002f, 0.25f, 7.0f, 8.0f, 0.0f, 1000.0f}));
  EXPECT_EQ(data.loss, LossKind::mse);
  EXPECT_EQ(data.targets[3], 100.0f);
}

TEST_F(Csv, TurnsWordsIntoOneFeatureEach) {
  const Dataset data = load_csv(file("colour,x,y\nred,1,0.5\nblue,2,1.5\nred,3,2.5\n7,4,0.1\n"));
  EXPECT_EQ(data.feature_names, (Names{"colour=7", "colour=blue", "colour=red", "x"}));
  EXPECT_EQ(data.features, (Floats{0, 0, 1, 1, /**/ 0, 1, 0, 2, /**/ 0, 0, 1, 3, /**/ 1, 0, 0, 4}));
}

TEST_F(Csv, DecidesClassesOrRegression) {
  Dataset data = load_csv(file("x,y\n1,cat\n2,dog\n3,cat\n"));
  EXPECT_EQ(data.loss, LossKind::softmax_cross_entropy);
  EXPECT_EQ(data.class_names, (Names{"cat", "dog"}));
  EXPECT_EQ(data.targets, (Floats{0, 1, 0}));

  CsvOptions integers = file("x,y\n1,-5\n2,10\n3,2\n4,10\n");
  data = load_csv(integers);
  EXPECT_EQ(data.class_names, (Names{"-5", "2", "10"}));  // by value, not by text
  EXPECT_EQ(data.targets, (Floats{0, 2, 1, 2}));
  integers.task = Task::regression;
  data = load_csv(integers);
  EXPECT_EQ(data.loss, LossKind::mse);
  EXPECT_EQ(data.output_width, 1);
  EXPECT_EQ(data.targets, (Floats{-5, 10, 2, 10}));
  EXPECT_TRUE(data.class_names.empty());

  std::string many = "x,y\n";
  for (int i = 0; i < 101; ++i) many += "1," + std::to_string(i) + "\n";
  CsvOptions options = file(many);
  EXPECT_EQ(load_csv(options).loss, LossKind::mse);
  options.task = Task::classification;
  EXPECT_EQ(load_csv(options).output_width, 101);
  EXPECT_EQ(load_csv(file(many.substr(0, many.rfind("1,100")))).output_width, 100);

  data = load_csv(file("y,x,z\n1,2,3\n4,5,6\n", {"z", "y"}));
  EXPECT_EQ(data.loss, LossKind::mse);
  EXPECT_EQ(data.target_names, (Names{"y", "z"}));  // in the order of the file
  EXPECT_EQ(data.targets, (Floats{1, 3, 4, 6}));
  EXPECT_EQ(data.features, (Floats{2, 5}));
}

TEST_F(Csv, RefusesATaskThatTheTargetCannotHave) {
  CsvOptions options = file("x,y\n1,a\n2,b\n");
  options.task = Task::regression;
  expect_refused(options, Cause::usage, {"line 2", "'y'", "'a'"});
  options = file("x,y\n1,1.5\n2,2\n");
  options.task = Task::classification;
  expect_refused(options, Cause::usage, {"'y'", "fractions", "`regression`"});
  expect_refused(file("x,y,z\n1,a,2\n2,b,3\n", {"y", "z"}), Cause::usage, {"'y'", "line 2"});
  expect_refused(file("x,y\n1,a\n2,a\n"), Cause::data_corrupt, {"same class 'a'"});
  expect_refused(file("x,y\n1,4\n2,4\n"), Cause::data_corrupt, {"same class '4'", "`regression`"});
}

TEST_F(Csv, NamesUnknownColumnsAndTheNearest) {
  expect_refused(file("x,label\n1,2\n", {"lable"}), Cause::usage, {"'lable'", "'label'?", "x, label"});
  expect_refused(file("x,y\n1,2\n", {}), Cause::usage, {"no target", "x, y"});
  expect_refused(file("y\n1\n2\n"), Cause::usage, {"no column is left"});
  CsvOptions options = file("x,z,y\n1,2,3\n4,5,6\n");
  options.ignore_columns = {"z"};
  EXPECT_EQ(load_csv(options).feature_names, (Names{"x"}));
  options.ignore_columns = {"q"};
  expect_refused(options, Cause::usage, {"'q'", "ignore"});
  std::string wide = "y";
  for (int i = 0; i < 100; ++i) wide += ",column" + std::to_string(i);
  expect_refused(file(wide + "\n", {"nothing"}), Cause::usage, {"and 81 more"});
}

TEST_F(Csv, NamesTheLineOfARaggedRow) {
  expect_refused(file("a,b,y\n1,2,3\n1,2\n4,5,6\n"), Cause::data_corrupt, {"line 3", "2 fields", "3", "'y'"});
  expect_refused(file("a,b,y\n1,2,3\n1,2,3,4\n"), Cause::data_corrupt, {"line 3", "4 fields"});
  expect_refused(file("a,b,y\n\"x\ny\",2,3\n1,2\n"), Cause::data_corrupt, {"line 4"});  // counts lines inside quotes
  expect_refused(file("a,y\n1,2\n\"open,3\n4,5\n"), Cause::data_corrupt, {"line 3", "field 1", "never closes"});
  expect_refused(file("a,y\n\"x\"z,2\n"), Cause::data_corrupt, {"line 2", "field 1", "closing quote"});
}

TEST_F(Csv, RefusesWhatIsNoTable) {
  expect_refused(file(""), Cause::data_corrupt, {"line 1", "empty"});
  expect_refused(file("\n \r\n\n"), Cause::data_corrupt, {"empty"});
  expect_refused(file("\xEF\xBB\xBF"), Cause::data_corrupt, {"empty"});
  expect_refused(file("a,y\n"), Cause::data_corrupt, {"no rows"});
  expect_refused(file("a,y"), Cause::data_corrupt, {"no rows"});
  expect_refused(file(std::string_view("a,y\n1,\0\n", 8)), Cause::data_corrupt, {"line 2", "NUL"});
  expect_refused(file("\xFF\xFE"
                      "a"),
                 Cause::data_corrupt, {"UTF-16", "iconv"});
  expect_refused(file("\x1F\x8B\x08"), Cause::data_corrupt, {"gzip"});
  expect_refused(file("a,b,a,y\n1,2,3,4\n"), Cause::data_corrupt, {"line 1", "columns 1 and 3", "'a'"});
}

TEST_F(Csv, RefusesWhatCannotBeOpened) {
  CsvOptions options;
  options.target_columns = {"y"};
  options.path = path_ + ".absent";
  expect_refused(options, Cause::usage, {"No such file"});
  options.path = testing::TempDir();
  expect_refused(options, Cause::usage, {"directory"});
  if (geteuid() != 0) {  // root reads everything
    options = file("a,y\n1,2\n");
    std::filesystem::permissions(path_, std::filesystem::perms::none);
    expect_refused(options, Cause::usage, {"Permission denied"});
  }
}

TEST_F(Csv, NamesAStrayWordAmongNumbers) {
  std::string text = "a,y\n";
  for (int i = 0; i < 20; ++i) text += (i == 12 ? "1O,0.5\n" : std::to_string(i) + ",0.5\n");
  expect_refused(file(text), Cause::data_corrupt, {"line 14", "column 1 'a'", "'1O'", "19 of 20"});
  EXPECT_EQ(load_csv(file("a;y\n1,5;2\n2,5;3\n")).features, (Floats{1.5f, 2.5f}));
}

TEST_F(Csv, RefusesNumbersThatAreNotFinite) {
  for (const char* bad : {"inf", "-Infinity", "1e39", "-1e999"})
    expect_refused(file(std::string("a,y\n1,2\n3,4\n") + bad + ",5\n"), Cause::non_finite,
                   {"line 4", "column 1 'a'", std::string("'") + bad + "'"});
  expect_refused(file("a,y\n1,inf\n3,4\n"), Cause::non_finite, {"line 2", "'y'"});
}

TEST_F(Csv, NamesMissingValuesOrTreatsThemAsTold) {
  const std::string text = "a,c,y\n1,red,0.5\n,blue,1.5\n5,,2.5\n6,red,0.25\n";
  expect_refused(file(text), Cause::data_corrupt, {"line 3", "column 1 'a'", "`missing=drop` or `missing=mean`"});
  for (const char* token : {"NA", "n/a", "null", "NULL", "?", "\"\""})
    expect_refused(file(std::string("a,y\n1,0.5\n") + token + ",1.5\n"), Cause::data_corrupt, {"line 3", "missing"});

  CsvOptions options = file(text);
  options.missing = Missing::drop_row;
  Dataset data = load_csv(options);
  EXPECT_EQ(data.num_rows, 2);
  EXPECT_EQ(data.feature_names, (Names{"a", "c=red"}));  // blue is gone with its row
  EXPECT_EQ(data.features, (Floats{1, 1, 6, 1}));
  EXPECT_EQ(data.targets, (Floats{0.5f, 0.25f}));

  options.missing = Missing::mean;
  data = load_csv(options);
  EXPECT_EQ(data.num_rows, 4);
  EXPECT_EQ(data.feature_names, (Names{"a", "c=blue", "c=red"}));
  EXPECT_EQ(data.features, (Floats{1, 0, 1, /**/ 4, 1, 0, /**/ 5, 1.0f / 3, 2.0f / 3, /**/ 6, 0, 1}));
}

TEST_F(Csv, NeverInventsTargets) {
  CsvOptions options = file("a,y\n1,0.5\n2,\n3,1.5\n");
  options.missing = Missing::mean;
  expect_refused(options, Cause::data_corrupt, {"line 3", "'y'", "`missing=drop`"});
  options.missing = Missing::drop_row;
  EXPECT_EQ(load_csv(options).targets, (Floats{0.5f, 1.5f}));
}

TEST_F(Csv, RefusesColumnsThatSayNothing) {
  expect_refused(file("a,b,y\n,1,2\n,3,4\n"), Cause::data_corrupt, {"'a'", "no row has a value"});
  CsvOptions options = file("a,b,y\n,1,2\n3,,4\n");
  options.missing = Missing::drop_row;
  expect_refused(options, Cause::data_corrupt, {"every row"});
  std::string ids = "id,y\n";
  for (int i = 0; i < 1001; ++i) ids += "id" + std::to_string(i) + ",0.5\n";
  expect_refused(file(ids), Cause::data_corrupt, {"line 1002", "'id'", "1000"});
  options = file("a,b,y\n1,x,0.5\n2,,0.25\n");
  options.ignore_columns = {"b"};
  EXPECT_EQ(load_csv(options).num_rows, 2);  // what is ignored may lack values
}

TEST_F(Csv, ReadsManyRows) {
  std::string text = "a,b,y\n";
  for (int i = 0; i < 200'000; ++i)
    text += std::to_string(i) + "," + std::to_string(i % 7) + ".5," + std::to_string(i % 3) + "\n";
  const Dataset data = load_csv(file(text));
  EXPECT_EQ(data.num_rows, 200'000);
  EXPECT_EQ(data.output_width, 3);
  EXPECT_EQ(data.features[2 * 199'999], 199'999.0f);
}

}  // namespace
}  // namespace amdahl
