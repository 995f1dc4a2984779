// Verbs that only read run folders: report, compare, advise.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "amdahl/amdahl.h"
#include "lab/evidence.h"
#include "lab/fabric_reports.h"
#include "lab/training_setup.h"
#include "planner/advise.h"
#include "report/arena.h"
#include "report/compare.h"
#include "report/markdown.h"
#include "report/study.h"
#include "report/text.h"
#include "report/training.h"
#include "spec/json.h"
#include "spec/run_folder.h"

namespace amdahl {
namespace {

// "DIR@global_batch=64,devices=2" to the folder and the axes that a record must have.
struct Selection {
  std::string dir;
  std::map<std::string, std::string> axes;
};

Error no_selection(const std::string& text) {
  return {Cause::usage, fmt::format("'{}' does not select a cell", text), "DIR@global_batch=64,devices=2"};
}

Selection parse_selection(const std::string& text) {
  Selection selection;
  std::error_code error;  // a folder may have an @ in its name: the longest path that exists is the folder
  size_t at = text.size();
  while (at != std::string::npos && at > 0 && !std::filesystem::exists(text.substr(0, at), error))
    at = text.rfind('@', at - 1);
  selection.dir = at == std::string::npos || at == 0 ? text : text.substr(0, at);
  if (selection.dir == text) return selection;
  const std::string list = text.substr(at + 1);
  if (list.empty()) throw no_selection(text);
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string item = list.substr(begin, end - begin);
    const size_t equals = item.find('=');
    if (equals == std::string::npos) throw no_selection(text);
    std::string axis = item.substr(0, equals);
    if (axis == "batch") axis = "global_batch";
    selection.axes[axis] = item.substr(equals + 1);
    begin = end + 1;
  }
  return selection;
}

std::string axis_text(const AxisValue& value) {
  return std::visit(
      [](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>)
          return v;
        else if constexpr (std::is_same_v<T, bool>)
          return std::string(v ? "true" : "false");
        else
          return fmt::format("{}", v);
      },
      value);
}

std::vector<Record> select(const Selection& selection) {
  RunContents run = read_run(selection.dir);
  if (run.header.kind != "study")
    throw Error(Cause::usage, fmt::format("{} is a {} run: compare takes studies", selection.dir, run.header.kind),
                "the run folders of two studies");
  std::vector<Record> kept;
  for (Record& record : run.records) {
    const bool matches = std::all_of(selection.axes.begin(), selection.axes.end(), [&](const auto& wanted) {
      const auto axis = record.axes.find(wanted.first);
      return axis != record.axes.end() && axis_text(axis->second) == wanted.second;
    });
    if (matches) kept.push_back(std::move(record));
  }
  if (kept.empty())
    throw Error(Cause::usage, fmt::format("{} has no record of that cell", selection.dir),
                "amdahl report lists the cells of a run");
  return kept;
}

// Which folder holds records that cannot be pooled; a damaged one has its file and line already.
StudySummary summarise_run(const std::string& run_dir, const std::vector<Record>& records) {
  try {
    return summarise_study(records);
  } catch (const Error& error) {
    if (error.cause() == Cause::store_corrupt) throw;
    throw Error(error.cause(), fmt::format("{}: {}", run_dir, error.what()), error.remedy());
  }
}

RunContents read_measured(const std::string& run_dir) {
  RunContents contents = read_run(run_dir);
  if (contents.records.empty())
    throw Error(Cause::store_corrupt, fmt::format("{}: nothing was measured in this run", run_dir),
                "--resume to go on with it");
  return contents;
}

std::filesystem::path folder_of(const std::string& run_dir) {
  const std::filesystem::path dir(run_dir);
  return std::filesystem::is_directory(dir) ? dir : dir.parent_path();
}

ReportOutcome report_training(const std::string& run_dir, const RunContents& contents, bool write) {
  ReportOutcome outcome;
  outcome.notes = contents.notes;
  outcome.markdown = training_markdown(contents.records);
  outcome.text = training_text(contents.records);
  outcome.json = record_to_json(contents.records.back());
  if (!write) return outcome;
  write_atomic(folder_of(run_dir) / "report.md", outcome.markdown);
  outcome.report_path = (folder_of(run_dir) / "report.md").string();
  return outcome;
}

ReportOutcome report_arena(const std::string& run_dir, const RunContents& contents, bool write) {
  ReportOutcome outcome;
  outcome.notes = contents.notes;
  outcome.text = arena_text(contents.records);
  outcome.json = records_to_json(contents.records);
  if (!write) return outcome;
  write_atomic(folder_of(run_dir) / "report.txt", outcome.text);
  outcome.report_path = (folder_of(run_dir) / "report.txt").string();
  return outcome;
}

ReportOutcome report_study(const std::string& run_dir, const RunContents& contents, bool write) {
  ReportOutcome outcome;
  outcome.notes = contents.notes;
  outcome.summary = summarise_run(run_dir, contents.records);
  for (const std::string& note : contents.notes) outcome.summary.notes.push_back(note);
  outcome.markdown = study_markdown(outcome.summary);
  outcome.text = study_text(outcome.summary, true);
  outcome.json = summary_to_json(outcome.summary);
  if (!write) return outcome;
  const std::filesystem::path folder = folder_of(run_dir);
  write_atomic(folder / "summary.json", outcome.json + "\n");
  write_atomic(folder / "report.md", outcome.markdown);
  outcome.report_path = (folder / "report.md").string();
  return outcome;
}

}  // namespace

ReportOutcome run_report(const std::string& run_dir, bool write) {
  const RunContents contents = read_measured(run_dir);
  const std::string& kind = contents.header.kind;
  if (kind == "study") return report_study(run_dir, contents, write);
  if (kind == "train") return report_training(run_dir, contents, write);
  if (kind == "links") return report_links(folder_of(run_dir), contents, write);
  if (kind == "collectives") return report_collectives(folder_of(run_dir), contents, write);
  if (kind == "arena") return report_arena(run_dir, contents, write);
  throw Error(Cause::usage, fmt::format("{} is a {} run, of which there is no report", run_dir, printable(kind, 40)),
              "the run folder of a study, train, links, collectives or arena");
}

StudySummary read_evidence(const std::string& run_dir) {
  const RunContents contents = read_measured(run_dir);
  if (contents.header.kind != "study")
    throw Error(Cause::usage, fmt::format("{} is a {} run: it compares nothing", run_dir, contents.header.kind),
                "the run folder of an amdahl study");
  return summarise_run(run_dir, contents.records);
}

CompareOutcome run_compare(const CompareConfig& config) {
  const std::optional<double> limit = config.fail_on_regression_percent;
  if (limit && !(*limit >= 0 && *limit <= 100))
    throw Error(Cause::usage, fmt::format("--fail-on-regression is {}", *limit),
                "a percentage from 0 to 100, like 3; 100 means that a step takes twice as long");
  const Selection a = parse_selection(config.a), b = parse_selection(config.b);
  CompareOptions options;
  options.name_a = config.a;
  options.name_b = config.b;
  options.allow_unlike = config.allow_unlike;
  if (!a.axes.empty() || !b.axes.empty())  // two cells: whatever was named may differ
    options.differing_axes = {"global_batch", "devices", "strategy", "launch", "overlap", "bucket_bytes", "accumulate"};
  const RunComparison comparison = compare_runs(select(a), select(b), options);
  CompareOutcome outcome;
  outcome.text = compare_text(comparison, true);
  outcome.json = comparison_to_json(comparison);
  outcome.regression = limit && regression(comparison, *limit);
  return outcome;
}

Advice run_advise(const AdviseConfig& config) {
  if (config.model.empty() && config.num_parameters < 1)
    throw Error(Cause::usage, fmt::format("--params is {}", config.num_parameters), "at least 1, for example 6.9M");
  if (config.batch_size < 1)
    throw Error(Cause::usage, fmt::format("--batch is {}", config.batch_size), "at least 1, for example 64");
  AdviceRequest request;
  request.model = config.model;
  request.num_parameters =
      config.num_parameters > 0 ? config.num_parameters : resolve_model(config.model).num_parameters();
  request.global_batch = config.batch_size;
  if (config.policy == "study") {
    if (!config.evidence.empty())
      throw Error(Cause::usage, "--from names records but --policy study uses none", "drop one of the two options");
    return advise_published(request);
  }
  if (config.policy != "measured")
    throw Error(Cause::usage, fmt::format("unknown policy '{}'", config.policy),
                choices_hint(config.policy, {"measured", "study"}));
  if (config.evidence.empty()) return advise_measured(request, {});
  const StudySummary summary = read_evidence(config.evidence);
  for (const StudyComparison& c : summary.comparisons)  // whatever was measured may answer
    request.max_devices = std::max<int64_t>(request.max_devices, c.multi.devices);
  return advise_measured(request, summary);
}

std::string advice_json(const Advice& advice) { return advice_to_json(advice); }

}  // namespace amdahl
