// Random tables with odd content: written by another writer and read, and written by the exporter and read back.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "errors.h"
#include "files/csv_reader.h"
#include "report/export/export.h"

namespace amdahl {
namespace {

using Table = std::vector<std::vector<std::string>>;

Table fields_of(const CsvText& text, char delimiter) {
  CsvReader reader(text, delimiter);
  CsvRow row;
  Table table;
  while (reader.next(row)) table.emplace_back(row.fields.begin(), row.fields.end());
  return table;
}

// Fields of letters, blanks, quotes, delimiters and line ends.
std::string odd_field(std::mt19937& random, bool with_line_ends = true) {
  static const std::vector<std::string> kParts{"a",  "B7",   " ",  "\"", ",", ";",  "\t",
                                               "\n", "\r\n", "\r", "é",  "=", "''", "-1"};
  std::string field;
  for (uint32_t left = random() % 6; left > 0; --left) {
    const std::string& part = kParts[random() % kParts.size()];
    if (with_line_ends || part.find_first_of("\r\n") == std::string::npos) field += part;
  }
  return field;
}

std::string in_quotes(const std::string& field) {
  std::string text = "\"";
  for (const char c : field) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

TEST(CsvProperties, QuotedFieldsComeBackVerbatim) {
  std::mt19937 random(91);
  for (int trial = 0; trial < 400; ++trial) {
    const char delimiter = ",;\t"[random() % 3];
    const std::string line_end = std::vector<std::string>{"\n", "\r\n", "\r"}[random() % 3];
    Table table(1 + random() % 5, std::vector<std::string>(1 + random() % 5));
    std::string bytes = random() % 2 == 0 ? "\xef\xbb\xbf" : "";
    CsvText text{"t.csv", "", bytes.size()};
    for (size_t row = 0; row < table.size(); ++row) {
      for (size_t i = 0; i < table[row].size(); ++i) {
        table[row][i] = odd_field(random);
        bytes += (i > 0 ? std::string(1, delimiter) : "") + (random() % 4 == 0 ? " " : "") + in_quotes(table[row][i]) +
                 (random() % 4 == 0 ? " " : "");
      }
      if (row + 1 < table.size() || random() % 2 == 0) bytes += line_end;
    }
    text.bytes = bytes;
    ASSERT_EQ(fields_of(text, delimiter), table) << bytes;
  }
}

TEST(CsvProperties, PlainFieldsAreTrimmed) {
  std::mt19937 random(92);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<std::string> row(2 + random() % 5);
    std::string bytes;
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = fmt::format("{}x{} y", i, random() % 1000);
      bytes += fmt::format("{}{}{}{}", i > 0 ? "," : "", std::string(random() % 3, ' '), row[i],
                           std::string(random() % 3, ' '));
    }
    ASSERT_EQ(fields_of({"t.csv", bytes, 0}, ','), Table{row}) << bytes;
  }
}

TEST(CsvProperties, LinesAreCountedAlsoWithinQuotes) {
  std::mt19937 random(93);
  for (int trial = 0; trial < 300; ++trial) {
    std::string bytes;
    std::vector<int64_t> starts;
    int64_t line = 1;
    for (uint32_t row = 0; row < 1 + random() % 6; ++row) {
      for (uint32_t empty = random() % 3; empty > 0; --empty) bytes += "\n", ++line;
      starts.push_back(line);
      const uint32_t inside = random() % 3;
      bytes += "\"a";
      for (uint32_t i = 0; i < inside; ++i) bytes += random() % 2 == 0 ? "\n" : "\r\n", ++line;
      bytes += "\",b\r\n";
      ++line;
    }
    const CsvText text{"t.csv", bytes, 0};
    CsvReader reader(text, ',');
    CsvRow row;
    std::vector<int64_t> lines;
    while (reader.next(row)) lines.push_back(row.line);
    ASSERT_EQ(lines, starts) << bytes;
  }
}

TEST(CsvProperties, TheDelimiterOfAnEvenTableIsFound) {
  std::mt19937 random(94);
  for (int trial = 0; trial < 300; ++trial) {
    const char delimiter = ",;\t"[random() % 3];
    const uint32_t columns = 2 + random() % 4;
    std::string bytes;
    for (uint32_t row = 0; row < 2 + random() % 25; ++row) {
      for (uint32_t i = 0; i < columns; ++i)
        bytes += (i > 0 ? std::string(1, delimiter) : "") + (random() % 5 == 0 ? in_quotes("x;y,z\tw") : "12.5");
      bytes += "\n";
    }
    ASSERT_EQ(detect_delimiter({"t.csv", bytes, 0}), delimiter) << bytes;
  }
}

TEST(CsvProperties, NoBytesAreReadBeyondTheEnd) {
  std::mt19937 random(95);
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes(random() % 30, ' ');
    for (char& c : bytes) c = "\"\",\n\ra ;"[random() % 8];
    const CsvText text{"t.csv", bytes, 0};
    const Error error = error_of([&] { static_cast<void>(fields_of(text, ',')); });
    if (error.cause() == Cause::internal) continue;  // it was read
    EXPECT_EQ(error.cause(), Cause::data_corrupt);
    EXPECT_NE(error.line().find("t.csv, line "), std::string::npos) << error.line();
    EXPECT_FALSE(error.remedy().empty());
  }
}

Record odd_record(std::mt19937& random) {
  Record record;
  record.kind = odd_field(random);
  record.status = {static_cast<Status::Kind>(random() % 3), odd_field(random)};
  record.origin = static_cast<Origin>(random() % 3);
  for (uint32_t axes = random() % 4; axes > 0; --axes) {
    const std::string name = fmt::format("axis{}{}", random() % 3, random() % 2 == 0 ? "," : "");
    const AxisValue values[] = {static_cast<int64_t>(random()) - 2'000'000'000, random() / 7.0, random() % 2 == 0,
                                odd_field(random)};
    record.axes[name] = values[random() % 4];
  }
  for (uint32_t left = random() % 3; left > 0; --left) {
    record.series.push_back({odd_field(random), odd_field(random), {}});
    for (uint32_t samples = random() % 4; samples > 0; --samples)
      record.series.back().samples.push_back(random() / 3.0);
  }
  record.provenance.host = odd_field(random);
  record.provenance.seed = random();
  record.provenance.commit = odd_field(random);
  return record;
}

// What the exporter promises of a text: a formula or an apostrophe gets an apostrophe in front.
std::string as_exported(const std::string& text) {
  return !text.empty() && std::string("=+-@\t\r\n'").find(text[0]) != std::string::npos ? "'" + text : text;
}

std::string as_exported(const AxisValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return as_exported(*text);
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return fmt::format("{}", std::get<double>(value));
}

TEST(CsvExportProperties, EverySampleIsReadBackWithItsRecord) {
  std::mt19937 random(96);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<Record> records(random() % 5);
    for (Record& record : records) record = odd_record(random);
    const Table table = fields_of({"t.csv", records_csv(records), 0}, ',');
    const std::vector<std::string>& header = table.at(0);
    std::map<std::string, size_t> column;
    for (size_t i = 0; i < header.size(); ++i) ASSERT_TRUE(column.insert({header[i], i}).second) << header[i];
    size_t at = 1;
    for (size_t i = 0; i < records.size(); ++i) {
      const Record& record = records[i];
      std::vector<std::pair<const Series*, size_t>> samples;
      for (const Series& series : record.series)
        for (size_t s = 0; s < series.samples.size(); ++s) samples.emplace_back(&series, s);
      for (size_t s = 0; s < std::max<size_t>(samples.size(), 1); ++s, ++at) {
        ASSERT_LT(at, table.size());
        const std::vector<std::string>& row = table[at];
        ASSERT_EQ(row.size(), header.size());
        EXPECT_EQ(row[column.at("record")], std::to_string(i));
        EXPECT_EQ(row[column.at("kind")], as_exported(record.kind));
        EXPECT_EQ(row[column.at("reason")], as_exported(record.status.reason));
        EXPECT_EQ(row[column.at("host")], as_exported(record.provenance.host));
        EXPECT_EQ(row[column.at("commit")], as_exported(record.provenance.commit));
        EXPECT_EQ(row[column.at("seed")], std::to_string(record.provenance.seed));
        for (const auto& [name, value] : record.axes) EXPECT_EQ(row[column.at("axis." + name)], as_exported(value));
        const bool any = !samples.empty();
        EXPECT_EQ(row[column.at("series")], any ? as_exported(samples[s].first->name) : "");
        EXPECT_EQ(row[column.at("unit")], any ? as_exported(samples[s].first->unit) : "");
        EXPECT_EQ(row[column.at("sample")], any ? std::to_string(samples[s].second) : "");
        if (any) {
          EXPECT_EQ(std::stod(row[column.at("value")]), samples[s].first->samples[samples[s].second]);
        }
      }
    }
    EXPECT_EQ(at, table.size());
  }
}

}  // namespace
}  // namespace amdahl
