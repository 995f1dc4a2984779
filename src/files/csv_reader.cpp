#include "files/csv_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

constexpr std::string_view kBom = "\xEF\xBB\xBF";

bool is_blank(char c) { return c == ' ' || c == '\t'; }

void refuse_binary(const CsvText& text) {
  const std::string_view bytes = text.bytes;
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error(Cause::data_corrupt, fmt::format("{}, line 1: {}", text.path, what), remedy);
  };
  if (bytes.substr(0, 2) == "\x1F\x8B") refuse("this is gzip-compressed data, not text", "decompress it first: gunzip");
  if (bytes.substr(0, 2) == "\xFF\xFE" || bytes.substr(0, 2) == "\xFE\xFF")
    refuse("the text is UTF-16", "convert it: iconv -f UTF-16 -t UTF-8");
  const size_t nul = bytes.find('\0');
  if (nul == std::string_view::npos) return;
  const auto line = 1 + std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(nul), '\n');
  throw Error(Cause::data_corrupt, fmt::format("{}, line {}: a NUL byte; this is not a text file", text.path, line),
              "export the data as comma-separated UTF-8 text");
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
  constexpr int kLookAhead = 20;
  char best = ',';
  size_t best_columns = 1;   // with a delimiter that splits every record into the same number of columns
  size_t first_columns = 1;  // of the header only, used when no delimiter does: the reader then reports the ragged line
  char best_of_first = ',';
  for (const char candidate : {',', ';', '\t'}) {
    CsvRow row;
    size_t columns = 0;
    bool equal = true;
    try {
      CsvReader reader(text, candidate);
      for (int i = 0; i < kLookAhead && reader.next(row); ++i) {
        if (i == 0) columns = row.fields.size();
        equal = equal && row.fields.size() == columns;
      }
    } catch (const Error&) {
      equal = false;  // with the wrong delimiter, quotes may look misplaced
    }
    if (equal && columns > best_columns) {
      best_columns = columns;
      best = candidate;
    }
    if (columns > first_columns) {
      first_columns = columns;
      best_of_first = candidate;
    }
  }
  return best_columns > 1 ? best : best_of_first;
}

CsvReader::CsvReader(const CsvText& text, char delimiter)
    : text_(&text),
      delimiter_(delimiter),
      at_(text.bytes.data() + text.begin),
      end_(text.bytes.data() + text.bytes.size()) {}

bool CsvReader::at_line_end() const { return at_ == end_ || *at_ == '\n' || *at_ == '\r'; }

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
  while (!at_line_end() && *at_ != delimiter_ && is_blank(*at_)) ++at_;
  if (!at_line_end() && *at_ != delimiter_)
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
  while (!at_line_end() && *at_ != delimiter_ && is_blank(*at_)) ++at_;
  if (!at_line_end() && *at_ == '"') return quoted_field(row);
  const char* begin = at_;
  while (!at_line_end() && *at_ != delimiter_) ++at_;
  const char* last = at_;
  while (last != begin && is_blank(last[-1])) --last;
  return {begin, static_cast<size_t>(last - begin)};
}

bool CsvReader::next(CsvRow& row) {
  row.fields.clear();
  row.unescaped.clear();
  while (at_ != end_) {
    row.line = line_;
    const char* begin = at_;
    for (;;) {
      row.fields.push_back(field(row));
      if (at_line_end()) break;
      if (row.fields.size() == kMostCsvFields)
        throw Error(Cause::data_corrupt,
                    fmt::format("{}, line {}: more than {} fields", text_->path, line_, kMostCsvFields),
                    "fewer columns, or the right delimiter");
      ++at_;  // the delimiter
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
