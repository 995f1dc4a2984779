#include <fmt/format.h>

#include <set>

#include "lab/report_pages.h"

namespace amdahl {
namespace {

// `name`, or the first of name-2, name-3, ... that is not taken.
std::string unique_name(const std::string& name, std::set<std::string>& taken) {
  std::string candidate = name;
  for (int i = 2; !taken.insert(candidate).second; ++i) candidate = fmt::format("{}-{}", name, i);
  return candidate;
}

// Anchors and charts' names, which are elements of one document.
void make_unique(Page& page, std::set<std::string>& taken) {
  for (PageSection& section : page.sections) {
    section.anchor = unique_name(section.anchor, taken);
    for (Chart& chart : section.charts) chart.id = unique_name(chart.id, taken);
    for (Picture& picture : section.pictures) picture.id = unique_name(picture.id, taken);
  }
}

// What one page says at its head, as a section of the whole.
PageSection heading_of(const Page& page, size_t number) {
  PageSection section;
  section.anchor = fmt::format("part-{}", number);
  section.title = page.qualifier.empty() ? page.title : fmt::format("{} ({})", page.title, page.qualifier);
  if (!page.verdict.empty()) section.paragraphs.push_back(page.verdict);
  section.paragraphs.insert(section.paragraphs.end(), page.facts.begin(), page.facts.end());
  return section;
}

}  // namespace

Page join_pages(std::vector<Page> pages) {
  std::set<std::string> names{"content", "notes", "provenance", "amdahl-charts", "amdahl-records"};
  if (pages.size() == 1) {
    make_unique(pages.front(), names);
    return std::move(pages.front());
  }
  Page whole;
  whole.title = fmt::format("{} reports", pages.size());
  whole.verdict = "What each says stands at its beginning; nothing here is compared across them.";
  std::set<std::string> qualifiers;
  size_t number = 0, qualified = 0;
  for (Page& page : pages) {
    ++number;
    PageSection heading = heading_of(page, number);
    heading.anchor = unique_name(heading.anchor, names);
    if (whole.facts.size() < 3) whole.facts.push_back(page.verdict);
    whole.sections.push_back(std::move(heading));
    make_unique(page, names);
    for (PageSection& section : page.sections) whole.sections.push_back(std::move(section));
    for (auto& [name, value] : page.provenance)
      whole.provenance.emplace_back(fmt::format("{}: {}", number, name), std::move(value));
    for (const std::string& note : page.notes) whole.notes.push_back(fmt::format("{}: {}", number, note));
    if (!page.qualifier.empty()) {
      ++qualified;
      qualifiers.insert(page.qualifier);
    }
  }
  for (const std::string& qualifier : qualifiers) whole.qualifier += (whole.qualifier.empty() ? "" : "; ") + qualifier;
  if (qualified > 0 && qualified < pages.size())
    whole.qualifier = fmt::format("{} of {} parts {}", qualified, pages.size(), whole.qualifier);
  return whole;
}

}  // namespace amdahl
