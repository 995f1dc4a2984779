#include "files/csv_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "files/number_spelling.h"
#include "files/text_encoding.h"
#include "files/text_tokens.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

constexpr std::string_view kBom = "\xEF\xBB\xBF";

bool is_blank(char c) { return c == ' ' || c == '\t'; }

void refuse_binary(const CsvText& text) {
  if (text.bytes.starts_with("\x1F\x8B"))
    throw Error(Cause::data_corrupt, fmt::format("{}, line 1: this is gzip-compressed data, not text", text.path),
                "decompress it first: gunzip");
  require_text(text.bytes, text.path);
}

/// What a delimiter makes of the first records.
struct DelimiterTrial {
  char delimiter = ',';
  size_t columns = 1;       // of the first record
  bool even = true;         // all records have as many
  bool all_numbers = true;  // behind the first record
};

DelimiterTrial try_delimiter(const CsvText& text, char delimiter) {
  constexpr int kLookAhead = 20;
  DelimiterTrial trial{delimiter};
  CsvRow row;
  int rows = 0;
  try {
    CsvReader reader(text, delimiter);
    for (; rows < kLookAhead && reader.next(row); ++rows) {
      if (rows == 0) trial.columns = row.fields.size();
      trial.even = trial.even && row.fields.size() == trial.columns;
      if (rows > 0 && trial.even)
        for (const std::string_view field : row.fields) {
          double value = 0;
          trial.all_numbers =
              trial.all_numbers && (field.empty() || parse_number(field, value) || spell_number(field).readable());
        }
    }
  } catch (const Error&) {
    trial.even = false;  // with the wrong delimiter, quotes may look misplaced
  }
  trial.all_numbers = trial.all_numbers && rows > 1;
  return trial;
}

bool is_better(const DelimiterTrial& a, const DelimiterTrial& b) {
  const bool splits_a = a.even && a.columns > 1, splits_b = b.even && b.columns > 1;
  if (splits_a != splits_b) return splits_a;
  if (splits_a && a.all_numbers != b.all_numbers) return a.all_numbers;
  return a.columns > b.columns;
}

size_t line_end(std::string_view bytes, size_t begin) {
  return std::min(bytes.find_first_of("\r\n", begin), bytes.size());
}

/// The begin of the line behind the one that ends at `end`.
size_t next_line(std::string_view bytes, size_t end) {
  if (end >= bytes.size()) return bytes.size();
  return end + (bytes.substr(end, 2) == "\r\n" ? 2 : 1);
}

/// The character that a first line "sep=;" names; 0 without such a line.
char named_separator(std::string_view line) {
  if (line.size() != 5 || line[3] != '=') return 0;
  std::string word(line.substr(0, 3));
  std::transform(word.begin(), word.end(), word.begin(), [](char c) { return static_cast<char>(c | 0x20); });
  return word == "sep" ? line[4] : '\0';
}

/// Whether the text, which begins behind the # of a comment line, has names of the records' columns there: as many
/// words as the first record has fields, one of which is a number.
bool names_columns(const CsvText& names, const CsvText& records, char delimiter) {
  CsvRow header, record;
  try {
    if (!CsvReader(names, delimiter).next(header) || !CsvReader(records, delimiter).next(record)) return false;
  } catch (const Error&) {
    return false;
  }
  const auto is_number = [](std::string_view field) {
    double value = 0;
    return parse_number(field, value) || spell_number(field).readable();
  };
  return header.line == names.first_line && header.fields.size() == record.fields.size() && header.fields.size() > 1 &&
         !is_number(header.fields[0]) && std::any_of(record.fields.begin(), record.fields.end(), is_number);
}

}  // namespace

CsvText read_csv_text(const std::string& path) {
  CsvText text{path, read_file(path, Cause::usage, kMostDataBytes), 0};
  refuse_binary(text);
  if (std::string_view(text.bytes).substr(0, kBom.size()) == kBom) text.begin = kBom.size();
  const bool only_blanks = std::all_of(text.bytes.begin() + static_cast<std::ptrdiff_t>(text.begin), text.bytes.end(),
                                       [](char c) { return is_blank(c) || c == '\n' || c == '\r'; });
  if (only_blanks)
    throw Error(Cause::data_corrupt, fmt::format("{}, line 1: the file is empty", path),
                "a file with a header line and one row per sample");
  return text;
}

char detect_delimiter(const CsvText& text) {
  DelimiterTrial best = try_delimiter(text, ',');
  for (const char candidate : {';', '\t', '|'})
    if (const DelimiterTrial trial = try_delimiter(text, candidate); is_better(trial, best)) best = trial;
  if (best.columns > 1) return best.delimiter;
  const DelimiterTrial blanks = try_delimiter(text, ' ');
  return blanks.even && blanks.columns > 1 ? ' ' : best.delimiter;
}

char find_records(CsvText& text, char told) {
  const std::string_view bytes = text.bytes;
  const size_t first_end = line_end(bytes, text.begin);
  if (const char named = named_separator(bytes.substr(text.begin, first_end - text.begin)); named != 0) {
    text.begin = next_line(bytes, first_end);
    ++text.first_line;
    if (told == 0) told = named;
  }
  size_t begin = text.begin, last_comment = std::string::npos;
  int64_t line = text.first_line, line_of_last = line;
  while (begin < bytes.size() && (bytes[begin] == '#' || bytes[begin] == '\r' || bytes[begin] == '\n')) {
    if (bytes[begin] == '#') last_comment = begin, line_of_last = line;
    begin = next_line(bytes, line_end(bytes, begin));
    ++line;
  }
  if (last_comment == std::string::npos || begin >= bytes.size())  // none, or nothing but lines that begin so
    return told != 0 ? told : detect_delimiter(text);
  text.begin = begin;
  text.first_line = line;
  text.comments = true;
  const char delimiter = told != 0 ? told : detect_delimiter(text);
  CsvText names{text.path, std::string(bytes.substr(0, begin)), last_comment + 1, line_of_last};
  while (names.begin < begin && bytes[names.begin] == '#') ++names.begin;
  if (names_columns(names, text, delimiter)) {
    text.begin = names.begin;
    text.first_line = line_of_last;
  }
  return delimiter;
}

CsvReader::CsvReader(const CsvText& text, char delimiter)
    : text_(&text),
      delimiter_(delimiter),
      at_(text.bytes.data() + text.begin),
      end_(text.bytes.data() + text.bytes.size()),
      line_(text.first_line) {}

bool CsvReader::at_line_end() const { return at_ == end_ || *at_ == '\n' || *at_ == '\r'; }

bool CsvReader::at_delimiter() const { return delimiter_ == ' ' ? is_blank(*at_) : *at_ == delimiter_; }

void CsvReader::pass_blanks() {
  while (!at_line_end() && is_blank(*at_) && (delimiter_ == ' ' || *at_ != delimiter_)) ++at_;
}

/// Passes a comment line, if one begins here.
bool CsvReader::pass_comment() {
  if (!text_->comments || at_ == end_ || *at_ != '#') return false;
  while (!at_line_end()) ++at_;
  pass_line_end();
  return true;
}

void CsvReader::pass_line_end() {
  if (at_ == end_) return;
  if (*at_ == '\r' && at_ + 1 != end_ && at_[1] == '\n') ++at_;
  ++at_;
  ++line_;
}

std::string_view CsvReader::quoted_field(CsvRow& row) {
  const int64_t open_line = line_;
  const char* begin = ++at_;
  bool doubled = false;
  for (;; ++at_) {
    if (at_ == end_)
      throw Error(Cause::data_corrupt,
                  fmt::format("{}, line {}, field {}: a quote that opens here never closes", text_->path, open_line,
                              row.fields.size() + 1),
                  "close the quote; a quote inside a quoted field is written twice");
    if (*at_ == '\n' || (*at_ == '\r' && (at_ + 1 == end_ || at_[1] != '\n'))) ++line_;
    if (*at_ != '"') continue;
    if (at_ + 1 == end_ || at_[1] != '"') break;
    doubled = true;
    ++at_;
  }
  std::string_view value(begin, static_cast<size_t>(at_ - begin));
  ++at_;
  if (delimiter_ != ' ') pass_blanks();
  if (!at_line_end() && !at_delimiter())
    throw Error(
        Cause::data_corrupt,
        fmt::format("{}, line {}, field {}: text behind a closing quote", text_->path, line_, row.fields.size() + 1),
        "a quote inside a quoted field is written twice");
  if (!doubled) return value;
  std::string& plain = row.unescaped.emplace_back();
  plain.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) {
    plain.push_back(value[i]);
    if (value[i] == '"') ++i;
  }
  return plain;
}

std::string_view CsvReader::field(CsvRow& row) {
  pass_blanks();
  if (!at_line_end() && *at_ == '"') return quoted_field(row);
  const char* begin = at_;
  while (!at_line_end() && !at_delimiter()) ++at_;
  const char* last = at_;
  while (last != begin && is_blank(last[-1])) --last;
  return {begin, static_cast<size_t>(last - begin)};
}

bool CsvReader::next(CsvRow& row) {
  row.fields.clear();
  row.unescaped.clear();
  while (at_ != end_) {
    if (pass_comment()) continue;
    row.line = line_;
    const char* begin = at_;
    for (;;) {
      row.fields.push_back(field(row));
      if (delimiter_ == ' ') pass_blanks();
      if (at_line_end()) break;
      if (row.fields.size() == kMostCsvFields)
        throw Error(Cause::data_corrupt,
                    fmt::format("{}, line {}: more than {} fields", text_->path, line_, kMostCsvFields),
                    "fewer columns, or the right delimiter");
      if (delimiter_ != ' ') ++at_;
    }
    // A blank line is not a record; a quoted empty field ("") is one.
    const bool empty = row.fields.size() == 1 && row.fields[0].empty() && std::all_of(begin, at_, is_blank);
    pass_line_end();
    if (!empty) return true;
    row.fields.clear();
  }
  return false;
}

}  // namespace amdahl
