#include "report/page/text_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "amdahl/error.h"
#include "report/common/aligned_table.h"
#include "report/page/table_text.h"

namespace amdahl {
namespace {

using Rows = std::vector<std::vector<std::string>>;

constexpr size_t kLongestCell = 60;    // longer cells become footnotes in any table
constexpr size_t kLongestNarrow = 22;  // the same in a table that is too wide
constexpr size_t kNarrowHead = 10;     // least width at which heads are broken into lines
constexpr size_t kLongestName = 28;    // longer names of rows take several lines in a table that is too wide

/// Text of a page as the style has it: no control characters, and for ASCII no signs beyond it. Names stay as they are.
std::string shown(std::string_view text, const TextStyle& style) {
  std::string result = printable(text);
  if (style.charset == Charset::utf8) return result;
  for (const auto& [sign, plain] : {std::pair{"→", "->"}, {"±", "+-"}, {"×", "x"}})
    for (size_t at = result.find(sign); at != std::string::npos; at = result.find(sign, at))
      result.replace(at, std::string_view(sign).size(), plain);
  return result;
}

std::string lines_of(std::string_view text, const TextStyle& style, size_t indent = 0) {
  std::string result;
  for (const std::string& line : wrapped_lines(shown(text, style), static_cast<size_t>(style.width), indent))
    result += line + "\n";
  return result;
}

bool fits(std::string_view text, const TextStyle& style) {
  if (style.width <= 0) return true;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (display_width(text.substr(at, end - at)) > static_cast<size_t>(style.width)) return false;
    at = end + 1;
  }
  return true;
}

/// Replaces cells longer than `longest` by their beginning, up to a bracket or colon, and a number; the first column
/// stays, it names the row.
void move_to_footnotes(TextTable& table, size_t longest, std::vector<std::string>& footnotes) {
  for (auto& row : table.rows)
    for (size_t i = 1; i < row.size(); ++i) {
      if (table.numbers[i] || display_width(row[i]) <= longest || row[i].ends_with(']')) continue;
      auto found = std::find(footnotes.begin(), footnotes.end(), row[i]);
      if (found == footnotes.end()) found = footnotes.insert(footnotes.end(), row[i]);
      const size_t stop = std::min(row[i].find(" ("), row[i].find(": "));
      const std::string begin = stop <= longest ? row[i].substr(0, stop) + " " : "";
      row[i] = fmt::format("{}[{}]", begin, found - footnotes.begin() + 1);
    }
}

std::string aligned(const TextTable& table, bool broken_heads, size_t width = 0) {
  Rows rows;
  std::vector<std::vector<std::string>> heads;
  size_t height = 1;
  for (size_t i = 0; i < table.head.size(); ++i) {
    size_t widest = kNarrowHead;
    for (const auto& row : table.rows) widest = std::max(widest, display_width(row[i]));
    heads.push_back(wrapped_lines(table.head[i], broken_heads ? widest : 0));
    height = std::max(height, heads.back().size());
  }
  for (size_t line = 0; line < height; ++line) {
    rows.emplace_back();
    for (const auto& head : heads) {  // at the bottom of the head
      const size_t skipped = height - head.size();
      rows.back().push_back(line < skipped ? "" : head[line - skipped]);
    }
  }
  rows.insert(rows.end(), table.rows.begin(), table.rows.end());
  return aligned_table(rows, table.numbers, width);
}

/// Cells of the first column that are longer than `longest` continue in lines below, broken after commas.
TextTable with_broken_names(const TextTable& table, size_t longest) {
  TextTable broken = table;
  broken.rows.clear();
  for (const auto& row : table.rows) {
    broken.rows.push_back(row);
    std::string rest = row.front();
    while (display_width(rest) > longest) {
      const size_t comma = rest.rfind(',', longest - 1);
      if (comma == std::string::npos) break;
      broken.rows.back().front() = rest.substr(0, comma + 1);
      rest = "  " + rest.substr(comma + 1);
      broken.rows.emplace_back(row.size());
      broken.rows.back().front() = rest;
    }
  }
  return broken;
}

/// Two tables, one below the other, with the first column, which names the rows, in both; empty where that does not fit
/// or where names repeat.
std::string in_two(const TextTable& table, const TextStyle& style) {
  std::set<std::string> names;
  for (const auto& row : table.rows)
    if (!names.insert(row.front()).second) return {};
  std::string text = aligned(table, true, static_cast<size_t>(style.width));
  const size_t second = text.find("\n\n");
  const bool is_more = second != std::string::npos && text.find("\n\n", second + 1) != std::string::npos;
  return is_more || !fits(text, style) ? std::string() : text;
}

/// A block per row: the first cell, then the others as "title: value".
std::string stacked(const TextTable& table, const TextStyle& style) {
  std::string text;
  for (const auto& row : table.rows) {
    text += lines_of(fmt::format("{}: {}", table.head.front(), row.front()), style, 2);
    std::string cells;
    for (size_t i = 1; i < row.size(); ++i)
      if (!row[i].empty()) cells += fmt::format("{}{}: {}", cells.empty() ? "" : "; ", table.head[i], row[i]);
    for (const std::string& line : wrapped_lines(cells, static_cast<size_t>(std::max(20, style.width - 2))))
      text += "  " + line + "\n";
  }
  return text;
}

std::string table_block(const PageTable& page_table, const TextStyle& style) {
  TextTable table = text_table(page_table.table);
  for (std::string& cell : table.head) cell = shown(cell, style);
  for (auto& row : table.rows)
    for (std::string& cell : row) cell = shown(cell, style);
  const std::string common = take_common(table);
  std::string text = common.empty() ? "" : lines_of("common: " + common, style, 2);
  if (table.rows.empty()) return text + "no rows\n";
  std::vector<std::string> footnotes;
  move_to_footnotes(table, kLongestCell, footnotes);
  std::string body = aligned(table, false);
  if (!fits(body, style)) body = aligned(table, true);
  if (!fits(body, style)) {
    TextTable narrow = table;
    std::vector<std::string> more = footnotes;
    move_to_footnotes(narrow, kLongestNarrow, more);
    if (const std::string tried = aligned(narrow, true); fits(tried, style))
      body = tried, footnotes = std::move(more);
    else if (const std::string with_names = aligned(with_broken_names(narrow, kLongestName), true);
             fits(with_names, style))
      body = with_names, footnotes = std::move(more);
    else if (body = in_two(narrow, style); !body.empty())
      footnotes = std::move(more);
    else
      body = stacked(table, style);
  }
  text += body;
  for (size_t i = 0; i < footnotes.size(); ++i) text += lines_of(fmt::format("[{}] {}", i + 1, footnotes[i]), style, 4);
  return text;
}

std::string section_block(const PageSection& section, const TextStyle& style) {
  std::string text;
  for (const std::string& line : section.paragraphs) text += lines_of(line, style);
  for (const std::string& line : section.short_form) text += lines_of(line, style, 2);
  for (const PageTable& table : section.tables) {
    if (!table.in_text || !section.short_form.empty()) continue;
    if (!text.empty()) text += "\n";
    if (!table.caption.empty() && table.caption != section.title) text += lines_of(table.caption, style);
    text += table_block(table, style);
  }
  return text.empty() ? text : "\n" + lines_of(section.title, style) + text;
}

}  // namespace

std::string text_page(const Page& page, const TextStyle& style) {
  std::string text;
  for (const std::string& warning : page.warnings) text += lines_of("warning: " + warning, style);
  if (!page.verdict.empty()) text += lines_of(page.verdict, style);
  if (std::string words = page.qualifier; !words.empty()) {
    words.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(words.front())));
    text += lines_of(words + ".", style);
  }
  for (const std::string& fact : page.facts) text += lines_of("- " + fact, style, 2);
  for (const PageSection& section : page.sections)
    if (section.in_text) text += section_block(section, style);
  if (!page.notes.empty()) text += "\nNotes\n";
  for (const std::string& note : page.notes) text += lines_of(note, style, 2);
  return text;
}

}  // namespace amdahl
