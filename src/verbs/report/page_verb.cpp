// `amdahl report` into HTML and Markdown files: any number of runs as one page.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "amdahl/error.h"
#include "amdahl/report.h"
#include "chart/document.h"
#include "files/output_place.h"
#include "files/whole_file.h"
#include "report/page/html_page.h"
#include "report/page/markdown_page.h"
#include "setup/failure_watch.h"
#include "spec/json.h"
#include "spec/measurements.h"
#include "verbs/report/chart_pictures.h"
#include "verbs/report/report_pages.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

const PageKind* find_kind(const std::string& kind) {
  for (const PageKind& row : page_kinds())
    if (row.kind == kind) return &row;
  return nullptr;
}

std::string kind_names() {
  std::vector<std::string> names;
  for (const PageKind& row : page_kinds()) names.emplace_back(row.kind);
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Whether the name is a JSON document written by amdahl (by `sensor bench` or `links`) rather than a run folder.
bool is_document(const std::string& name) { return !fs::is_directory(name) && is_json_name(name); }

RunContents read_document(const std::string& name) {
  Measurements found = read_measurements(name);
  const bool means = std::any_of(found.records.begin(), found.records.end(), [](const Record& record) {
    return std::any_of(record.series.begin(), record.series.end(),
                       [&](const Series& series) { return summary_in(record, series.name).has_value(); });
  });
  if (means)
    throw Error(Cause::usage, fmt::format("{} has means of runs, and no runs", name), "the run folder it lies in");
  if (found.foreign)
    throw Error(Cause::usage, fmt::format("{} was measured by {}", name, found.tool),
                fmt::format("amdahl compare {} RUN, with a run of ours", name));
  RunContents contents;
  contents.header.kind = found.kind;
  contents.records = std::move(found.records);
  contents.notes = std::move(found.notes);
  return contents;
}

PageRun read_page_run(const std::string& name) {
  PageRun run{name, fs::is_directory(name) ? fs::path(name) : fs::path(name).parent_path(),
              is_document(name) ? read_document(name) : read_run(name)};
  require_records(name, run.contents);
  if (const std::string note = is_document(name) ? "" : failure_note(run.folder); !note.empty())
    run.contents.notes.push_back(note);
  if (!find_kind(run.contents.header.kind))
    throw Error(Cause::usage,
                fmt::format("{} is a {} run, of which there is no page", name, printable(run.contents.header.kind, 40)),
                fmt::format("a run of: {}", kind_names()));
  return run;
}

/// The runs that were read, and the errors of the others.
struct Runs {
  std::vector<PageRun> read;
  std::vector<Error> problems;
};

Runs read_runs(const std::vector<std::string>& names) {
  Runs runs;
  std::set<fs::path> seen;
  for (const std::string& name : names) {
    std::error_code error;
    const fs::path file = fs::is_directory(name, error) ? records_file(name) : fs::path(name);
    if (!seen.insert(fs::weakly_canonical(file, error)).second)
      throw Error(Cause::usage, fmt::format("{} is given twice", name),
                  "each run once: its samples would count double");
    try {
      runs.read.push_back(read_page_run(name));
    } catch (const Error& problem) {
      if (problem.cause() != Cause::usage && problem.cause() != Cause::store_corrupt &&
          problem.cause() != Cause::version_refused)
        throw;
      runs.problems.push_back(problem);
    }
  }
  return runs;
}

// The run files verbatim, line by line, so that the page can be read back.
std::string embedded_runs(const std::vector<PageRun>& runs) {
  std::vector<std::string> documents;
  for (const PageRun& run : runs) {
    std::vector<std::string> lines;
    // A pipe cannot be read again.
    if (is_document(run.name) || !(fs::is_directory(run.name) || fs::is_regular_file(run.name))) {
      for (const Record& record : run.contents.records) lines.push_back(record_to_json(record));
      documents.push_back(fmt::format("{{\"name\":{},\"lines\":{}}}", json_text(run.name), json_array(lines)));
      continue;
    }
    const std::string text = read_text_file(fs::is_directory(run.name) ? records_file(run.name) : fs::path(run.name),
                                            Cause::store_corrupt, kMostRunBytes);
    for (size_t begin = 0; begin < run.contents.complete_bytes && begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      if (end > begin) lines.push_back(text.substr(begin, end - begin));
      begin = end + 1;
    }
    documents.push_back(fmt::format("{{\"name\":{},\"lines\":{}}}", json_text(run.name), json_array(lines)));
  }
  return fmt::format("{{\"version\":{},\"runs\":{}}}", kSchemaVersion, json_array(documents));
}

// Pages of every kind in table order; a kind whose records are inconsistent is left out.
std::vector<Page> pages_of(Runs& runs) {
  std::vector<Page> pages;
  for (const PageKind& row : page_kinds()) {
    std::vector<const PageRun*> members;
    for (const PageRun& run : runs.read)
      if (run.contents.header.kind == row.kind) members.push_back(&run);
    if (members.empty()) continue;
    try {
      for (Page& page : row.pages(members)) pages.push_back(std::move(page));
    } catch (const Error& problem) {
      if (problem.cause() != Cause::usage && problem.cause() != Cause::store_corrupt) throw;
      runs.problems.push_back(problem);
    }
  }
  return pages;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Error(Cause::usage, fmt::format("{} cannot be made: {}", folder.string(), error.message()),
                "a place for the Markdown file that can be written");
}

constexpr double kPicturesSeconds = 120;

// Writes FILE, and its pictures to FILE_charts next to it: "study.md", "study_charts/speedup-....svg".
void write_markdown(const Page& page, const PageConfig& config, PageOutcome& outcome) {
  const fs::path file(config.markdown);
  const std::string folder = file.stem().string() + "_charts";
  std::vector<const Chart*> charts;
  for (const PageSection& section : page.sections)
    for (const Chart& chart : section.charts) charts.push_back(&chart);
  ChartPictures drawn;
  if (output_place(file).is_stream()) {
    drawn.why_none = "they are files beside the Markdown, which goes to no file here";
  } else {
    drawn = draw_charts(charts, config.picture_pythons, Deadline::after_seconds(kPicturesSeconds));
    for (const PageSection& section : page.sections)
      for (const Picture& picture : section.pictures) drawn.svg[picture.id] = picture.svg;
  }
  std::map<std::string, std::string> pictures;
  if (!drawn.svg.empty()) make_folder(file.parent_path() / folder);
  for (const auto& [id, svg] : drawn.svg) {
    write_atomic(file.parent_path() / folder / (id + ".svg"), svg);
    pictures[id] = fmt::format("{}/{}.svg", folder, id);
  }
  if (!drawn.why_none.empty())
    outcome.notes.push_back(fmt::format("{}: no pictures: {}", config.markdown, drawn.why_none));
  write_atomic(file, markdown_page(page, pictures, drawn.why_none));
  outcome.written.push_back(config.markdown);
}

}  // namespace

PageOutcome run_page_report(const PageConfig& config) {
  if (config.runs.empty()) throw Error(Cause::usage, "report without a run", "amdahl report RUN `html=report.html`");
  Runs runs = read_runs(find_runs(config.runs));
  if (runs.read.empty()) throw runs.problems.front();
  std::vector<Page> pages = pages_of(runs);
  if (pages.empty()) throw runs.problems.front();
  Page page = join_pages(std::move(pages));
  PageOutcome outcome;
  for (const PageRun& run : runs.read)
    for (const std::string& note : run.contents.notes) outcome.notes.push_back(note);
  for (const Error& problem : runs.problems) outcome.notes.push_back(fmt::format("left out: {}", problem.what()));
  page.notes.insert(page.notes.end(), outcome.notes.begin(), outcome.notes.end());
  page.embedded_json = embedded_runs(runs.read);
  if (!config.html.empty()) {
    write_atomic(config.html, html_page(page, html_assets()));
    outcome.written.push_back(config.html);
  }
  if (!config.markdown.empty()) write_markdown(page, config, outcome);
  if (!runs.problems.empty()) outcome.problem = runs.problems.front();
  outcome.title = page.title;
  outcome.qualifier = page.qualifier;
  outcome.verdict = page.verdict;
  return outcome;
}

}  // namespace amdahl
