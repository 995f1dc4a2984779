#include "report/page/markdown_page.h"

#include <fmt/format.h>

#include "amdahl/error.h"
#include "chart/document.h"
#include "report/common/words.h"
#include "report/page/table_text.h"

namespace amdahl {
namespace {

std::string markdown_table(const TextTable& cells) {
  std::string text = "|", rule = "|";
  for (size_t i = 0; i < cells.head.size(); ++i) {
    text += fmt::format(" {} |", escape_markdown(cells.head[i]));
    rule += cells.numbers[i] ? "---:|" : "---|";
  }
  text += "\n" + rule + "\n";
  for (size_t r = 0; r < cells.rows.size() && r < kMarkdownRows; ++r) {
    text += "|";
    for (const std::string& cell : cells.rows[r]) text += fmt::format(" {} |", escape_markdown(cell));
    text += "\n";
  }
  if (cells.rows.size() > kMarkdownRows)
    text += fmt::format("\n{} of {} rows; the HTML page has all of them.\n", kMarkdownRows,
                        with_thousands(static_cast<int64_t>(cells.rows.size())));
  return text + "\n";
}

std::string chart_text(const Chart& chart, const std::map<std::string, std::string>& pictures) {
  const auto picture = pictures.find(chart.id);
  std::string text = fmt::format("### {}\n\n", escape_markdown(chart.title));
  if (chart.origin != Origin::measured) text += fmt::format("**{}, not measured**\n\n", origin_text(chart.origin));
  if (picture != pictures.end()) text += fmt::format("![{}]({})\n\n", escape_markdown(chart.summary), picture->second);
  text += fmt::format("{}\n\n", escape_markdown(chart.summary));
  const std::string table = markdown_table(text_table(chart.table));
  if (picture == pictures.end()) return text + table;
  return text + fmt::format("<details><summary>Data: {} row{}</summary>\n\n{}</details>\n\n",
                            with_thousands(static_cast<int64_t>(chart.table.rows.size())),
                            chart.table.rows.size() == 1 ? "" : "s", table);
}

std::string picture_text(const Picture& picture, const std::map<std::string, std::string>& pictures) {
  const auto file = pictures.find(picture.id);
  std::string text = fmt::format("### {}\n\n", escape_markdown(picture.title));
  if (file != pictures.end()) text += fmt::format("![{}]({})\n\n", escape_markdown(picture.summary), file->second);
  return text + fmt::format("{}\n\n", escape_markdown(picture.summary));
}

std::string section_text(const PageSection& section, const std::map<std::string, std::string>& pictures) {
  std::string text = fmt::format("{} {}\n\n", section.begins_part ? "---\n\n##" : "##", escape_markdown(section.title));
  for (const auto* lines : {&section.paragraphs, &section.details})
    for (const std::string& line : *lines) text += escape_markdown(line) + "\n\n";
  for (const Picture& picture : section.pictures) text += picture_text(picture, pictures);
  for (const Chart& chart : section.charts) text += chart_text(chart, pictures);
  for (const PageTable& table : section.tables) {
    if (!table.in_pages) continue;
    if (!table.caption.empty()) text += fmt::format("**{}**\n\n", escape_markdown(table.caption));
    TextTable cells = text_table(table.table);
    if (const std::string common = take_common(cells); !common.empty())
      text += fmt::format("All rows: {}\n\n", escape_markdown(common));
    text += markdown_table(cells);
  }
  return text;
}

}  // namespace

std::string markdown_page(const Page& page, const std::map<std::string, std::string>& pictures,
                          const std::string& why_none) {
  std::string text = fmt::format("# {}\n\n", escape_markdown(page.title));
  if (!page.qualifier.empty()) text += fmt::format("**{}**\n\n", escape_markdown(page.qualifier));
  for (const std::string& warning : page.warnings) text += fmt::format("**Warning:** {}\n\n", escape_markdown(warning));
  if (!page.verdict.empty()) text += fmt::format("> {}\n\n", escape_markdown(page.verdict));
  for (const std::string& fact : page.facts) text += fmt::format("- {}\n", escape_markdown(fact));
  for (const auto& [anchor, words] : page.parts) text += fmt::format("- {}\n", escape_markdown(words));
  if (!page.facts.empty() || !page.parts.empty()) text += "\n";
  if (!why_none.empty()) text += fmt::format("Pictures are left out: {}.\n\n", escape_markdown(why_none));
  for (const PageSection& section : page.sections) text += section_text(section, pictures);
  if (!page.notes.empty()) {
    text += "## Notes\n\n";
    for (const std::string& note : page.notes) text += fmt::format("- {}\n", escape_markdown(note));
    text += "\n";
  }
  if (page.provenance.empty()) return text;
  text += "## Provenance\n\n| What | Value |\n|---|---|\n";
  for (const auto& [name, value] : page.provenance)
    text += fmt::format("| {} | {} |\n", escape_markdown(name), escape_markdown(value));
  return text;
}

std::string markdown_page(Page page) {
  for (PageSection& section : page.sections) section.charts.clear();
  std::erase_if(page.sections, [](const PageSection& section) {
    return section.tables.empty() && section.paragraphs.empty() && section.details.empty() && section.pictures.empty();
  });
  return markdown_page(page, {}, "");
}

}  // namespace amdahl
