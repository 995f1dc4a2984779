#include "report/page/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "amdahl/error.h"
#include "chart/document.h"
#include "report/common/aligned_table.h"
#include "report/common/words.h"
#include "report/page/table_text.h"

namespace amdahl {
namespace {

// Longer tables are created by the script when they are opened: as HTML they would double the file size.
constexpr size_t kWrittenRows = 400;

// JSON inside <script> must not end the element; outside of strings JSON has no '<'.
std::string script_safe(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

/// Whether a line may not break in the word: options, names with a number behind a hyphen, "->", as far as they fit a
/// narrow window.
bool is_whole(std::string_view word) {
  constexpr size_t kLongest = 26;
  const size_t hyphen = word.find('-');
  if (word.size() > kLongest || hyphen == std::string_view::npos) return false;
  return hyphen == 0 || std::any_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// "gpu 0", "node 1".
bool is_numbered_device(std::string_view kind, std::string_view number) {
  constexpr std::string_view kKinds[] = {"gpu", "cpu", "node"};
  return std::find(std::begin(kKinds), std::end(kKinds), kind) != std::end(kKinds) && number.front() >= '0' &&
         number.front() <= '9';
}

/// Whether a blank belongs to a number: "95 %", "n = 5", "p < 0.025", "gpu 0".
bool joins(std::string_view before, std::string_view after) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (before.empty() || after.empty()) return false;
  const auto is_sign = [](std::string_view word) { return word == "=" || word == "<"; };
  return (is_digit(before.back()) && after.front() == '%') || is_sign(before) || is_sign(after) ||
         (before.ends_with("%") && after.starts_with("CI")) || is_numbered_device(before, after) ||
         (before.front() == '[' && after.find(']') < after.size());
}

/// Names may be broken after their parts: "pp7,m64," "split=" "flops", "device_" "local_" "copy", and not within
/// "->50". Digits of a number stay together.
std::string breakable(const std::string& escaped, std::string_view ends = ",=_+") {
  constexpr std::string_view kArrow = "-&gt;";
  std::string text;
  const auto is_digit = [&](size_t i) { return i < escaped.size() && escaped[i] >= '0' && escaped[i] <= '9'; };
  for (size_t i = 0; i < escaped.size(); ++i) {
    if (escaped.compare(i, kArrow.size(), kArrow) == 0) {
      text += fmt::format("<span class=\"whole\">{}</span>", kArrow);
      i += kArrow.size() - 1;
      continue;
    }
    text += escaped[i];
    const bool ends_part = ends.find(escaped[i]) != std::string_view::npos;
    const bool in_word = i + 1 < escaped.size() && escaped[i + 1] != ' ';
    if (ends_part && in_word && !(is_digit(i + 1) && is_digit(i + 2) && is_digit(i + 3))) text += "<wbr>";
  }
  return text;
}

/// Text of paragraphs and heads, whose lines break between words and not within numbers with their units.
std::string prose(std::string_view text) {
  constexpr size_t kLongWord = 20;  // a path, or the name of a test or of a workload
  std::string result, group;
  std::string_view last;
  bool whole = false;
  const auto flush = [&] {
    result += whole ? fmt::format("<span class=\"whole\">{}</span>", group) : group;
    group.clear(), whole = false;
  };
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (at > 0) {
      if (joins(last, word))
        group += ' ', whole = true;
      else
        flush(), result += ' ';
    }
    group += word.size() > kLongWord ? breakable(escape_xml(word), ",=_+/") : escape_xml(word);
    whole = whole || is_whole(word);
    last = word, at = end + 1;
  }
  flush();
  return result;
}

int hex_digit(char c) { return c <= '9' ? c - '0' : c - 'a' + 10; }

std::string base64_of(std::string_view bytes) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string base64;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j) base64 += i + j <= bytes.size() ? kDigits[group >> (6 * (3 - j)) & 63U] : '=';
  }
  return base64;
}

// "'sha256-...'" of a content security policy, from lower-case hex.
std::string policy_hash(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(hex_digit(hex[i]) * 16 + hex_digit(hex[i + 1]));
  return fmt::format("'sha256-{}'", base64_of(bytes));
}

std::string head(const Page& page, const HtmlAssets& assets) {
  std::string scripts = policy_hash(assets.script.sha256);
  if (!assets.bundle.text.empty()) scripts += " " + policy_hash(assets.bundle.sha256);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src {}; style-src {}; img-src "
      "data: blob:; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"amdahl\">\n"
      "<title>{}{}</title>\n<style>{}</style>\n</head>\n",
      scripts, policy_hash(assets.style.sha256), escape_xml(page.title),
      page.qualifier.empty() ? "" : escape_xml(fmt::format(" ({})", page.qualifier)), assets.style.text);
}

// Emphasises the leading number of a fact: "2.93x [2.90, 2.96]: 4 GPUs against one".
std::string fact(const std::string& text) {
  const size_t colon = text.find(": ");
  if (colon == std::string::npos || text.empty() || std::isdigit(static_cast<unsigned char>(text[0])) == 0)
    return fmt::format("<li><span>{}</span></li>\n", prose(text));
  return fmt::format("<li><strong>{}</strong> <span>{}</span></li>\n", prose(text.substr(0, colon)),
                     prose(text.substr(colon + 2)));
}

std::string header(const Page& page) {
  std::string text =
      "<body>\n<a class=\"skip\" href=\"#content\">Skip to the results</a>\n<header class=\"top\"><div "
      "class=\"wrap\">\n<p class=\"eyebrow\">amdahl report</p>\n";
  text += fmt::format("<h1{}>{}</h1>\n", page.verdict.empty() ? " class=\"verdict\"" : "", prose(page.title));
  if (!page.qualifier.empty()) text += fmt::format("<p class=\"qualifier\">{}</p>\n", escape_xml(page.qualifier));
  for (const std::string& warning : page.warnings)
    text += fmt::format("<p class=\"warning\">Warning: {}</p>\n", prose(warning));
  if (!page.verdict.empty()) text += fmt::format("<p class=\"verdict\">{}</p>\n", prose(page.verdict));
  if (!page.facts.empty()) {
    text += "<ul class=\"facts\">\n";
    for (const std::string& line : page.facts) text += fact(line);
    text += "</ul>\n";
  }
  if (!page.parts.empty()) {
    text += "<ol class=\"parts\">\n";
    for (const auto& [anchor, words] : page.parts)
      text += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", anchor, prose(words));
    text += "</ol>\n";
  }
  if (!page.notes.empty())
    text += fmt::format(
        "<p class=\"warn\"><a href=\"#notes\">{} note{} on what failed, was left out or is unusual</a></p>\n",
        page.notes.size(), page.notes.size() == 1 ? "" : "s");
  return text + "</div></header>\n";
}

// Plot width in pixels of a card next to another one, in a window of 1,400 pixels: wider charts get their own row.
constexpr int kHalfPlot = 600;

constexpr size_t kLongCell = 30;   // characters; longer text may take several lines
constexpr size_t kShownRows = 40;  // a table of more rows is scrolled within the page

// The interval of a number is paler than the number.
std::string cell(const std::string& words, bool number) {
  const size_t interval = words.ends_with(']') ? words.find(" [") : std::string::npos;
  if (interval != std::string::npos && number)
    return fmt::format("<td class=\"num\">{} <i>{}</i></td>", escape_xml(words.substr(0, interval)),
                       escape_xml(words.substr(interval + 1)));
  const char* kind = number                         ? " class=\"num\""
                     : words.size() > 2 * kLongCell ? " class=\"long sentence\""
                     : words.size() > kLongCell     ? " class=\"long\""
                                                    : "";
  if (interval != std::string::npos)
    return fmt::format("<td{}>{} <span class=\"whole\">{}</span></td>", kind,
                       breakable(escape_xml(words.substr(0, interval))), escape_xml(words.substr(interval + 1)));
  return fmt::format("<td{}>{}</td>", kind, number ? escape_xml(words) : breakable(escape_xml(words)));
}

/// Whether a table needs small letters to be whole in a window of 1,400 pixels.
bool is_dense(const TextTable& table) {
  constexpr size_t kLetter = 8, kGap = 29, kRoom = 1150;  // pixels
  size_t width = 0;
  for (size_t i = 0; i < table.head.size(); ++i) {
    size_t letters = 0;
    for (const std::string& word : wrapped_lines(table.head[i], 1)) letters = std::max(letters, word.size());
    for (const auto& row : table.rows) letters = std::max(letters, std::min(row[i].size(), kLongCell));
    width += letters * kLetter + kGap;
  }
  return width > kRoom;
}

// `label` names the scrollable region for keyboard and screen reader users.
std::string html_table(const TextTable& table, const std::string& label, bool with_rows) {
  std::string text =
      fmt::format("<div class=\"scroll{}{}\" role=\"region\" tabindex=\"0\" aria-label=\"{}\"><table>\n<thead><tr>",
                  table.rows.size() > kShownRows ? " tall" : "", is_dense(table) ? " dense" : "", escape_xml(label));
  for (size_t i = 0; i < table.head.size(); ++i)
    text += fmt::format("<th scope=\"col\"{}>{}</th>", table.numbers[i] ? " class=\"num\"" : "", prose(table.head[i]));
  text += "</tr></thead>\n<tbody>\n";
  for (size_t r = 0; with_rows && r < table.rows.size(); ++r) {
    text += "<tr>";
    for (size_t i = 0; i < table.head.size(); ++i) text += cell(table.rows[r][i], table.numbers[i]);
    text += "</tr>\n";
  }
  return text + "</tbody></table></div>\n<p class=\"cue\">Scroll sideways for more.</p>\n";
}

std::string page_table(const PageTable& table, const std::string& title) {
  TextTable text = text_table(table.table);
  std::string common = take_common(text);
  if (!common.empty()) common = "All rows: " + common;
  if (text.rows.size() > kShownRows)
    common +=
        fmt::format("{}{} rows", common.empty() ? "" : "; ", with_thousands(static_cast<int64_t>(text.rows.size())));
  if (common.empty() && table.caption.empty()) return html_table(text, title, true);
  return fmt::format("<p class=\"caption\">{}{}</p>\n{}", prose(table.caption),
                     common.empty() ? "" : fmt::format("<small>{}</small>", prose(common)),
                     html_table(text, table.caption.empty() ? title : table.caption, true));
}

std::string button(const Chart& chart, std::string_view file, std::string_view words) {
  return fmt::format("<button type=\"button\" data-file=\"{0}\" aria-label=\"{1} of: {2}\">{1}</button>", file, words,
                     escape_xml(chart.title));
}

std::string badge(std::string_view origin) { return fmt::format("<span class=\"badge {0}\">{0}</span>", origin); }

std::string figure(const Chart& chart, const HtmlAssets& assets) {
  const bool written = chart.table.rows.size() <= kWrittenRows;
  const std::string_view origin = origin_text(chart.origin);
  std::string text =
      fmt::format("<figure id=\"{0}\" class=\"chart {1}{3}\">\n<div class=\"chart-head\"><h3>{2}</h3>{4}{5}</div>\n",
                  chart.id, origin, escape_xml(chart.title), chart.wide || chart.least_width > kHalfPlot ? " wide" : "",
                  badge(origin), chart.with_modelled ? badge(origin_text(Origin::modelled)) : "");
  if (!assets.bundle.text.empty())
    text += fmt::format(
        "<div class=\"plot\" role=\"img\" aria-label=\"{}. {}\" data-chart=\"{}\"></div>\n<p class=\"cue\">Scroll "
        "sideways for more.</p>\n",
        escape_xml(chart.title), escape_xml(chart.summary), chart.id);
  text += fmt::format("<figcaption>{}</figcaption>\n<div class=\"tools\">", prose(chart.summary));
  if (!assets.bundle.text.empty()) text += button(chart, "svg", "SVG") + button(chart, "png", "PNG");
  text += button(chart, "csv", "CSV") + "</div>\n";
  text += fmt::format(
      "<details data-table=\"{}\"{}><summary>Data: {} row{}</summary>\n{}</details>\n</figure>\n", chart.id,
      written ? "" : " data-late", with_thousands(static_cast<int64_t>(chart.table.rows.size())),
      chart.table.rows.size() == 1 ? "" : "s", html_table(text_table(chart.table), "Data of: " + chart.title, written));
  return text;
}

// As an image: the drawing's styles affect nothing else, and the content security policy allows them.
std::string picture_figure(const Picture& picture) {
  return fmt::format(
      "<figure id=\"{0}\" class=\"picture\">\n<h3>{1}</h3>\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" "
      "aria-label=\"{1}\"><img alt=\"{1}. {2}\" src=\"data:image/svg+xml;base64,{3}\"></div>\n<p class=\"cue\">Scroll "
      "sideways for more.</p>\n<figcaption>{2}</figcaption>\n</figure>\n",
      picture.id, escape_xml(picture.title), escape_xml(picture.summary), base64_of(picture.svg));
}

std::string section(const PageSection& part, const HtmlAssets& assets) {
  std::string text =
      fmt::format("<section id=\"{0}\" aria-labelledby=\"{0}-title\"{2}>\n<h2 id=\"{0}-title\">{1}</h2>\n", part.anchor,
                  escape_xml(part.title), part.begins_part ? " class=\"part\"" : "");
  for (const auto* lines : {&part.paragraphs, &part.details})
    for (const std::string& line : *lines) text += fmt::format("<p>{}</p>\n", prose(line));
  for (const Picture& picture : part.pictures) text += picture_figure(picture);
  if (!part.charts.empty()) {
    text += "<div class=\"charts\">\n";
    for (const Chart& chart : part.charts) text += figure(chart, assets);
    text += "</div>\n";
  }
  for (const PageTable& table : part.tables)
    if (table.in_pages) text += page_table(table, part.title);
  return text + "</section>\n";
}

std::string navigation(const Page& page) {
  std::string text = "<nav aria-label=\"Sections\"><ol class=\"wrap\">\n";
  for (const PageSection& part : page.sections)
    text += fmt::format("<li{}><a href=\"#{}\">{}</a></li>\n", part.begins_part ? " class=\"part\"" : "", part.anchor,
                        escape_xml(part.title));
  if (!page.notes.empty()) text += "<li><a href=\"#notes\">Notes</a></li>\n";
  if (!page.provenance.empty()) text += "<li><a href=\"#provenance\">Provenance</a></li>\n";
  return text + "</ol></nav>\n";
}

std::string closing_sections(const Page& page) {
  std::string text;
  if (!page.notes.empty()) {
    text += "<section id=\"notes\" aria-labelledby=\"notes-title\">\n<h2 id=\"notes-title\">Notes</h2>\n<ul>\n";
    for (const std::string& note : page.notes) text += fmt::format("<li>{}</li>\n", prose(note));
    text += "</ul>\n</section>\n";
  }
  if (!page.provenance.empty()) {
    text +=
        "<section id=\"provenance\" aria-labelledby=\"provenance-title\">\n<h2 "
        "id=\"provenance-title\">Provenance</h2>\n"
        "<dl>\n";
    for (const auto& [name, value] : page.provenance)
      text += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape_xml(name), prose(value));
    text += "</dl>\n</section>\n";
  }
  return text;
}

std::string data_and_scripts(const Page& page, const HtmlAssets& assets) {
  std::vector<const Chart*> charts;
  for (const PageSection& part : page.sections)
    for (const Chart& chart : part.charts) charts.push_back(&chart);
  std::string text = fmt::format("<script type=\"application/json\" id=\"amdahl-charts\">{}</script>\n",
                                 script_safe(charts_json(charts)));
  if (!page.embedded_json.empty())
    text += fmt::format("<script type=\"application/json\" id=\"amdahl-records\">{}</script>\n",
                        script_safe(page.embedded_json));
  if (!assets.bundle.text.empty()) text += fmt::format("<script>{}</script>\n", assets.bundle.text);
  return text + fmt::format("<script>{}</script>\n", assets.script.text);
}

}  // namespace

std::string html_page(const Page& page, const HtmlAssets& assets) {
  std::string text = head(page, assets) + header(page);
  text += navigation(page) + "<main id=\"content\" class=\"wrap\" tabindex=\"-1\">\n";
  if (assets.bundle.text.empty())
    text += fmt::format("<p class=\"warn\">Charts are not drawn: {}. Their data is in the tables.</p>\n",
                        escape_xml(std::string(assets.bundle_missing)));
  else
    text +=
        "<noscript><p class=\"warn\">Charts are drawn by this page's own script, which is switched off here; their "
        "data is in the tables.</p></noscript>\n";
  for (const PageSection& part : page.sections) text += section(part, assets);
  text += closing_sections(page);
  text += "</main>\n<footer class=\"wrap\"><p>Written by <code>amdahl</code>.";
  if (!page.embedded_json.empty())
    text += " What it shows is inside this file (element <code>amdahl-records</code>), nothing else was read.";
  if (!page.provenance.empty()) text += " n counts independent runs; intervals are 95 %.";
  text += "</p></footer>\n";
  return text + data_and_scripts(page, assets) + "</body>\n</html>\n";
}

}  // namespace amdahl
