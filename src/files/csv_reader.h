// Splits delimited text into records: RFC 4180 quoting, CRLF, LF or CR line ends, UTF-8 byte order mark, comment lines
// before the records, a first line "sep=;".
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace amdahl {

/// A file in memory. CsvReader and the fields of CsvRow point into it, so it must outlive them.
struct CsvText {
  std::string path;
  std::string bytes;
  size_t begin = 0;  // offset of the first record; read_csv_text: after the byte order mark
  int64_t first_line = 1;
  bool comments = false;  // lines that begin with # are no records
};

/// Reads a file. Error{usage} when it cannot be opened; Error{data_corrupt} when it is empty or not UTF-8 text (a NUL
/// byte, a UTF-16 mark, a gzip header).
CsvText read_csv_text(const std::string& path);

/// The delimiter (comma, semicolon, tab or bar) that splits the first records into numbers alone, else into the most
/// columns, with the same number of columns in each. When none does, ' ' if runs of blanks split them so; else the file
/// has one column and ',' is returned.
char detect_delimiter(const CsvText& text);

/// Moves the begin of the text to its first record, behind a line "sep=X" and comment lines that begin with #. The last
/// of these is kept, without its #, where it names the columns. Returns the delimiter: `told` unless it is 0, then that
/// of the line "sep=X", then the detected one.
char find_records(CsvText& text, char told);

/// Upper limit of fields per record: each column takes memory.
inline constexpr size_t kMostCsvFields = 500'000;

/// One record. Unquoted fields are trimmed of blanks; quoted fields are taken verbatim, with "" for one quote.
struct CsvRow {
  int64_t line = 0;  // line number of its start, from 1
  std::vector<std::string_view> fields;
  std::deque<std::string> unescaped;  // storage of fields that contained doubled quotes
};

/// Iterates over the records of a text. Empty lines are skipped. With ' ' as delimiter, runs of blanks and tabs
/// separate the fields. Not thread-safe.
class CsvReader {
 public:
  CsvReader(const CsvText& text, char delimiter);
  /// Reads the next record; false at the end. Error{data_corrupt} for an unclosed quote, text after a closing quote, or
  /// more than kMostCsvFields fields. The fields are valid until the next call.
  bool next(CsvRow& row);

 private:
  std::string_view field(CsvRow& row);
  std::string_view quoted_field(CsvRow& row);
  bool at_line_end() const;
  bool at_delimiter() const;
  void pass_blanks();
  bool pass_comment();
  void pass_line_end();

  const CsvText* text_;
  char delimiter_;
  const char* at_;
  const char* end_;
  int64_t line_;
};

}  // namespace amdahl
