#include "verbs/training/study_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "report/common/record_checks.h"
#include "report/study/page.h"
#include "report/study/summary.h"
#include "spec/trace_json.h"

namespace amdahl {
namespace {

// What must be equal for the records of two runs to be samples of the same quantity.
std::string conditions_of(const PageRun& run) {
  std::set<std::string> conditions;
  for (const Record& record : run.contents.records) {
    const Provenance& p = record.provenance;
    conditions.insert(
        fmt::format("{}\n{}\n{}\n{}\n{}", p.device_kind, p.host, device_names_of(p), p.tool_version, p.commit));
  }
  return fmt::format("{}", fmt::join(conditions, "\n\n"));
}

constexpr const char* kRunAxis = "run";

// Run numbers of a folder start at 0: those of the next folder continue.
int64_t append_runs(std::vector<Record>& records, const std::vector<Record>& more, int64_t first) {
  int64_t next = first;
  for (const Record& record : more) {
    records.push_back(record);
    const auto run = records.back().axes.find(kRunAxis);
    if (run == records.back().axes.end()) continue;
    if (auto* number = std::get_if<int64_t>(&run->second); number && *number >= 0 && *number < (int64_t{1} << 32)) {
      *number += first;
      next = std::max(next, *number + 1);
    }
  }
  return next;
}

// Adds the traced steps of runs, before the section on the method.
void add_timelines(Page& page, const std::vector<const PageRun*>& runs) {
  int number = 0;
  for (const PageRun* run : runs) {
    const std::filesystem::path file = run->folder / kTraceFile;
    std::error_code error;
    if (!std::filesystem::exists(file, error)) continue;
    try {
      const StepTrace trace = trace_from_json(read_file(file, Cause::store_corrupt), file.string());
      std::optional<PageSection> section = trace_section(trace, run->name, fmt::format("timeline-{}", ++number));
      if (section) page.sections.insert(std::prev(page.sections.end()), std::move(*section));
    } catch (const Error& problem) {
      page.notes.push_back(fmt::format("no timeline: {}", problem.what()));
    }
  }
}

Page page_of(const std::vector<const PageRun*>& runs) {
  std::vector<Record> records;
  std::vector<std::string> names;
  int64_t next = 0;
  for (const PageRun* run : runs) {
    next = append_runs(records, run->contents.records, next);
    names.push_back(run->name);
  }
  StudySummary summary = summarise_study(records);
  if (runs.size() > 1)
    summary.notes.push_back(fmt::format("{} run folders of the same machine and build are pooled: {}", runs.size(),
                                        fmt::join(names, ", ")));
  Page page = study_page(summary, records);
  page.subject.num_runs = static_cast<int64_t>(runs.size());
  add_timelines(page, runs);
  return page;
}

}  // namespace

std::vector<Page> study_pages(const std::vector<const PageRun*>& runs) {
  std::vector<std::pair<std::string, std::vector<const PageRun*>>> sets;  // by conditions, in order
  for (const PageRun* run : runs) {
    const std::string conditions = conditions_of(*run);
    const auto set = std::find_if(sets.begin(), sets.end(), [&](const auto& s) { return s.first == conditions; });
    if (set == sets.end())
      sets.emplace_back(conditions, std::vector<const PageRun*>{run});
    else
      set->second.push_back(run);
  }
  std::vector<Page> pages;
  for (const auto& [conditions, members] : sets) pages.push_back(page_of(members));
  return pages;
}

}  // namespace amdahl
