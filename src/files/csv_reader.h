// Splits delimited text into records: RFC 4180 quoting, CRLF, LF or CR line ends, UTF-8 byte order mark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace amdahl {

/// A whole file in memory. Readers and their fields point into it, so it outlives them.
struct CsvText {
  std::string path;
  std::string bytes;
  size_t begin = 0;  // past the byte order mark
};

/// Reads a file. Error{usage} when it cannot be opened; Error{data_corrupt} when it is empty or is not UTF-8-like text
/// (a NUL byte, a UTF-16 mark, a gzip header).
CsvText read_csv_text(const std::string& path);

/// Comma, semicolon or tab: the one that splits the first records into the most columns, equally many in each.
/// A file that none of them splits has one column, and ',' is returned.
char detect_delimiter(const CsvText& text);

/// The most fields of a record: columns take memory of their own.
inline constexpr size_t kMostCsvFields = 500'000;

/// One record. Fields without quotes are trimmed of blanks; quoted ones are taken as written, with "" as one quote.
struct CsvRow {
  int64_t line = 0;  // where it starts, counted from 1
  std::vector<std::string_view> fields;
  std::deque<std::string> unescaped;  // backs fields that held doubled quotes
};

/// Walks the records of a text once. Empty lines are skipped.
class CsvReader {
 public:
  CsvReader(const CsvText& text, char delimiter);
  /// False at the end. Error{data_corrupt} for a quote that never closes, text behind a closing quote, or more than
  /// kMostCsvFields fields.
  /// Fields stay valid until the next call.
  bool next(CsvRow& row);

 private:
  std::string_view field(CsvRow& row);
  std::string_view quoted_field(CsvRow& row);
  bool at_line_end() const;
  void pass_line_end();

  const CsvText* text_;
  char delimiter_;
  const char* at_;
  const char* end_;
  int64_t line_ = 1;
};

}  // namespace amdahl
