#include "report/common/aligned_table.h"

#include <algorithm>

#include "amdahl/report.h"

namespace amdahl {
namespace {

struct CodeRange {
  uint32_t first, last;
};

/// Ranges of characters that take two columns: Hangul, East Asian scripts and forms, emoji.
constexpr CodeRange kWide[] = {{0x1100, 0x115F}, {0x2E80, 0xA4CF}, {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
                               {0xFE30, 0xFE6F}, {0xFF00, 0xFF60}, {0x1F300, 0x1FAFF}, {0x20000, 0x3FFFD}};
/// Combining marks and joiners, which take none.
constexpr CodeRange kNarrow[] = {{0x0300, 0x036F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}};

template <size_t N>
bool is_in(const CodeRange (&ranges)[N], uint32_t code) {
  return std::any_of(std::begin(ranges), std::end(ranges),
                     [code](const CodeRange& range) { return code >= range.first && code <= range.last; });
}

}  // namespace

size_t display_width(std::string_view text) {
  size_t width = 0;
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    uint32_t code = length == 1 ? lead : lead & (0xFFU >> (length + 1));
    for (size_t k = 1; k < length && i + k < text.size(); ++k)
      code = (code << 6) | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    width += is_in(kNarrow, code) ? 0 : is_in(kWide, code) ? 2 : 1;
    i += length;
  }
  return width;
}

std::string aligned_table(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right,
                          size_t width) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  }
  std::string text;
  for (size_t first = 0; first < widths.size();) {
    std::vector<size_t> columns;
    size_t used = 0;
    if (first > 0) columns.push_back(0), used = widths[0];
    do {
      used += widths[first] + (columns.empty() ? 0 : 2);
      columns.push_back(first++);
    } while (first < widths.size() && (width == 0 || used + 2 + widths[first] <= width));
    text += text.empty() ? "" : "\n";
    for (const auto& row : rows) {
      std::string line;
      for (const size_t i : columns) {
        if (i >= row.size()) continue;
        const std::string pad(widths[i] - display_width(row[i]), ' ');
        const bool to_right = right.empty() ? i > 0 : right[i];
        line += (i == columns.front() ? "" : "  ") + (to_right ? pad + row[i] : row[i] + pad);
      }
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
  }
  return text;
}

std::string fitted_lines(std::string_view text, size_t width, size_t indent) {
  std::string fitted;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (width == 0 || display_width(line) <= width) {
      fitted += std::string(line) + "\n";
      continue;
    }
    const size_t lead = std::min(line.find_first_not_of(' '), line.size());
    for (const std::string& part : wrapped_lines(line.substr(lead), width - std::min(width - 1, lead), indent))
      fitted += std::string(lead, ' ') + part + "\n";
  }
  return fitted;
}

std::vector<std::string> wrapped_lines(std::string_view text, size_t width, size_t indent) {
  if (width == 0) return {std::string(text)};
  std::vector<std::string> lines(1);
  size_t used = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    const size_t length = display_width(word);
    const bool empty = lines.back().find_first_not_of(' ') == std::string::npos;
    if (!empty && used + 1 + length > width) {
      lines.emplace_back(indent, ' ');
      used = indent;
    } else if (!empty) {
      lines.back() += ' ', ++used;
    }
    lines.back() += word, used += length;
    at = end + 1;
  }
  return lines;
}

}  // namespace amdahl
