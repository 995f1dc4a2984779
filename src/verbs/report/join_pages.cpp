#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "verbs/report/report_pages.h"

namespace amdahl {
namespace {

// `name`, or the first of name-2, name-3, ... that is not taken.
std::string unique_name(const std::string& name, std::set<std::string>& taken) {
  std::string candidate = name;
  for (int i = 2; !taken.insert(candidate).second; ++i) candidate = fmt::format("{}-{}", name, i);
  return candidate;
}

// Makes anchors and chart ids unique, because all are elements of one document.
void make_unique(Page& page, std::set<std::string>& taken) {
  for (PageSection& section : page.sections) {
    section.anchor = unique_name(section.anchor, taken);
    for (Chart& chart : section.charts) chart.id = unique_name(chart.id, taken);
    for (Picture& picture : section.pictures) picture.id = unique_name(picture.id, taken);
  }
}

// The heading of one page, as a section of the joined page.
PageSection heading_of(const Page& page, const std::string& title, size_t number, bool with_qualifier) {
  PageSection section;
  section.begins_part = true;
  section.anchor = fmt::format("part-{}", number);
  section.title = with_qualifier ? fmt::format("{} ({})", title, page.qualifier) : title;
  if (!page.verdict.empty()) section.paragraphs.push_back(page.verdict);
  section.paragraphs.insert(section.paragraphs.end(), page.facts.begin(), page.facts.end());
  return section;
}

void add_word(std::vector<std::string>& words, const std::string& word) {
  if (!word.empty() && std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
}

// "2 studies of large, medium", "1 links run": all pages of one kind.
std::string kind_text(const std::vector<Page>& pages, const std::string& one) {
  constexpr size_t kMostNames = 4;
  int64_t runs = 0;
  std::string many;
  std::vector<std::string> subjects;
  for (const Page& page : pages) {
    if (page.subject.one != one) continue;
    runs += page.subject.num_runs, many = page.subject.many;
    add_word(subjects, page.subject.what);
  }
  const size_t more = subjects.size() > kMostNames ? subjects.size() - kMostNames : 0;
  subjects.resize(subjects.size() - more);
  std::string text = fmt::format("{} {}", runs, runs == 1 ? one : many);
  if (!subjects.empty()) text += fmt::format(" of {}", fmt::join(subjects, ", "));
  return more == 0 ? text : fmt::format("{} and {} more", text, more);
}

// "6 collective sweeps of all_reduce, all_gather on 4 x NVIDIA H200".
std::string title_of(const std::vector<Page>& pages) {
  std::vector<std::string> kinds, places, texts;
  for (const Page& page : pages) add_word(kinds, page.subject.one), add_word(places, page.subject.where);
  for (const std::string& kind : kinds) texts.push_back(kind_text(pages, kind));
  if (texts.empty()) return fmt::format("{} reports", pages.size());
  const std::string last = texts.back();
  texts.pop_back();
  const std::string all = texts.empty() ? last : fmt::format("{} and {}", fmt::join(texts, ", "), last);
  return places.empty() ? all : fmt::format("{} on {}", all, fmt::join(places, " and "));
}

// The conclusion on a machine whose health was examined: its faults, then the first sentence of its only study.
std::string verdict_of(const std::vector<Page>& pages) {
  const auto find = [&](std::string_view kind) {
    const auto of_kind = [&](const Page& page) { return page.subject.one == kind; };
    const bool one = std::count_if(pages.begin(), pages.end(), of_kind) == 1;
    return one ? std::find_if(pages.begin(), pages.end(), of_kind)->verdict : std::string();
  };
  const std::string health = find("health check"), study = find("study");
  const std::string first =
      study.substr(0, study.find(". ") == std::string::npos ? study.size() : study.find(". ") + 1);
  return health.empty() || study.empty() ? health : fmt::format("{} {}", health, first);
}

// Pages with the same title are numbered.
std::string part_title(const std::vector<Page>& pages, size_t index) {
  int64_t same = 0, before = 0;
  for (size_t i = 0; i < pages.size(); ++i)
    if (pages[i].title == pages[index].title) ++same, before += i < index;
  return same == 1 ? pages[index].title : fmt::format("{}, {} of {}", pages[index].title, before + 1, same);
}

}  // namespace

Page join_pages(std::vector<Page> pages) {
  std::set<std::string> names{"content", "notes", "provenance", "amdahl-charts", "amdahl-records"};
  if (pages.size() == 1) {
    make_unique(pages.front(), names);
    return std::move(pages.front());
  }
  Page whole;
  whole.title = title_of(pages);
  whole.verdict = verdict_of(pages);
  std::vector<std::string> titles;  // before the pages are moved from
  for (size_t i = 0; i < pages.size(); ++i) titles.push_back(part_title(pages, i));
  // A qualifier that holds for all pages is only in the main heading.
  const auto same_qualifier = [&](const Page& page) { return page.qualifier == pages.front().qualifier; };
  const bool common = std::all_of(pages.begin(), pages.end(), same_qualifier);
  std::set<std::string> qualifiers;
  size_t number = 0, qualified = 0;
  for (Page& page : pages) {
    ++number;
    PageSection heading = heading_of(page, titles[number - 1], number, !common && !page.qualifier.empty());
    heading.anchor = unique_name(heading.anchor, names);
    whole.parts.emplace_back(heading.anchor, fmt::format("{}: {}", titles[number - 1], page.verdict));
    whole.sections.push_back(std::move(heading));
    make_unique(page, names);
    for (PageSection& section : page.sections) whole.sections.push_back(std::move(section));
    for (auto& [name, value] : page.provenance)
      whole.provenance.emplace_back(fmt::format("{}: {}", number, name), std::move(value));
    for (const std::string& warning : page.warnings)
      whole.warnings.push_back(fmt::format("{}: {}", titles[number - 1], warning));
    for (const std::string& note : page.notes) whole.notes.push_back(fmt::format("{}: {}", number, note));
    if (!page.qualifier.empty()) {
      ++qualified;
      qualifiers.insert(page.qualifier);
    }
  }
  for (const std::string& qualifier : qualifiers) {
    const auto says_more = [&](const std::string& other) { return other != qualifier && other.starts_with(qualifier); };
    if (std::none_of(qualifiers.begin(), qualifiers.end(), says_more))
      whole.qualifier += (whole.qualifier.empty() ? "" : "; ") + qualifier;
  }
  if (qualified > 0 && qualified < pages.size())
    whole.qualifier = fmt::format("{} of {} parts {}", qualified, pages.size(), whole.qualifier);
  return whole;
}

}  // namespace amdahl
