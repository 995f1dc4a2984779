// Verbs that only read run folders: report and advise.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "amdahl/comparison.h"
#include "amdahl/report.h"
#include "files/whole_file.h"
#include "planner/advise.h"
#include "report/common/failure.h"
#include "report/common/process_spread.h"
#include "report/compare/bench.h"
#include "report/fabric/pages.h"
#include "report/page/markdown_page.h"
#include "report/page/text_page.h"
#include "report/plan/measured_page.h"
#include "report/study/page.h"
#include "report/study/summary.h"
#include "sensor/report/page.h"
#include "setup/failure_watch.h"
#include "setup/training_setup.h"
#include "spec/json.h"
#include "spec/run_folder.h"
#include "verbs/fabric/fabric_reports.h"
#include "verbs/planner/calibrated.h"
#include "verbs/report/evidence.h"

namespace amdahl {
namespace {

// Adds the folder to the error for records that cannot be pooled; errors of damaged records name file and line already.
StudySummary summarise_run(const std::string& run_dir, const std::vector<Record>& records) {
  try {
    return summarise_study(records);
  } catch (const Error& error) {
    if (error.cause() == Cause::store_corrupt) throw;
    throw Error(error.cause(), fmt::format("{}: {}", run_dir, error.what()), error.remedy());
  }
}

std::filesystem::path folder_of(const std::string& run_dir) {
  const std::filesystem::path dir(run_dir);
  return std::filesystem::is_directory(dir) ? dir : dir.parent_path();
}

RunContents read_measured(const std::string& run_dir) {
  RunContents contents = read_run(run_dir);
  require_records(run_dir, contents);
  if (const std::string note = failure_note(folder_of(run_dir)); !note.empty()) contents.notes.push_back(note);
  return contents;
}

ReportOutcome report_training(const std::string& run_dir, const RunContents& contents, bool write, int width) {
  ReportOutcome outcome;
  outcome.notes = contents.notes;
  outcome.markdown = markdown_page(training_page(contents.records));
  outcome.text = text_page(training_page(contents.records), {width});
  outcome.json = record_to_json(contents.records.back());
  if (!write) return outcome;
  write_atomic(folder_of(run_dir) / "report.md", outcome.markdown);
  outcome.report_path = (folder_of(run_dir) / "report.md").string();
  return outcome;
}

/// Report of a run that is text only. `text`: in so many columns.
ReportOutcome report_text(const std::string& run_dir, const RunContents& contents, bool write, int width,
                          const std::function<std::string(int)>& text) {
  ReportOutcome outcome;
  outcome.notes = contents.notes;
  outcome.text = text(width);
  outcome.json = records_to_json(contents.records);
  if (!write) return outcome;
  write_atomic(folder_of(run_dir) / "report.txt", text(0));
  outcome.report_path = (folder_of(run_dir) / "report.txt").string();
  return outcome;
}

ReportOutcome report_study(const std::string& run_dir, const RunContents& contents, bool write, int width) {
  ReportOutcome outcome;
  outcome.notes = contents.notes;
  outcome.summary = summarise_run(run_dir, contents.records);
  outcome.text = text_page(study_page(outcome.summary, {}), {width});  // the notes of the folder are told apart from it
  for (const std::string& note : contents.notes) outcome.summary.notes.push_back(note);
  outcome.markdown = markdown_page(study_page(outcome.summary, {}));
  outcome.json = summary_to_json(outcome.summary);
  if (!write) return outcome;
  const std::filesystem::path folder = folder_of(run_dir);
  write_atomic(folder / "summary.json", outcome.json + "\n");
  write_atomic(folder / "report.md", outcome.markdown);
  outcome.report_path = (folder / "report.md").string();
  return outcome;
}

}  // namespace

namespace {

/// Whether the first line of a file of another name than kRecordsFile begins a run.
bool begins_run(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  if (!name.ends_with(".jsonl") && !name.ends_with(".jsonl.gz")) return false;
  try {
    const std::string text = read_text_file(file, Cause::store_corrupt, kMostRunBytes);
    std::string line = text.substr(0, text.find('\n'));
    std::erase(line, ' ');
    return line.find(R"("type":"run")") != std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

/// The runs below a folder. What lies inside of a run's folder belongs to that run.
void collect_runs(const std::filesystem::path& folder, std::vector<std::string>& runs) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(records_file(folder), error)) {
    runs.push_back(folder.string());
    return;
  }
  std::vector<fs::directory_entry> entries;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) entries.push_back(entry);
  std::sort(entries.begin(), entries.end());
  for (const fs::directory_entry& entry : entries) {
    if (entry.is_directory(error) && !entry.is_symlink(error)) collect_runs(entry.path(), runs);
    if (entry.is_regular_file(error) && begins_run(entry.path())) runs.push_back(entry.path().string());
  }
}

}  // namespace

std::vector<std::string> find_runs(const std::vector<std::string>& names) {
  std::vector<std::string> runs;
  std::error_code error;
  for (const std::string& name : names) {
    const size_t before = runs.size();
    if (std::filesystem::is_directory(name, error))
      collect_runs(name, runs);
    else
      runs.push_back(name);
    if (runs.size() == before)
      throw Error(Cause::usage, fmt::format("{}: no run is stored there or below", name),
                  fmt::format("a folder that holds a {}, or one of such folders", kRecordsFile));
  }
  return runs;
}

namespace {

ReportOutcome report_of(const std::string& run_dir, bool write, int width) {
  if (!std::filesystem::is_directory(run_dir) && is_json_name(run_dir))
    throw Error(Cause::usage, fmt::format("{} is no run folder: of a JSON document there is only a page", run_dir),
                fmt::format("amdahl report {} `html=FILE`", run_dir));
  const RunContents contents = read_measured(run_dir);
  const std::string& kind = contents.header.kind;
  if (kind == "study") return report_study(run_dir, contents, write, width);
  if (kind == "train") return report_training(run_dir, contents, write, width);
  if (kind == "links") return report_links(folder_of(run_dir), contents, write, width);
  if (kind == "onesided") return report_onesided(folder_of(run_dir), contents, write, width);
  if (kind == "collectives") return report_collectives(folder_of(run_dir), contents, write, width);
  const auto text_only = [&](const auto& text) { return report_text(run_dir, contents, write, width, text); };
  if (kind == "bench") return text_only([&](int most) { return text_page(bench_page(contents.records), {most}); });
  if (kind == "arena") return text_only([&](int most) { return text_page(arena_page(contents.records), {most}); });
  if (kind == "sensor")
    return text_only([&](int most) { return text_page(sensor_page(pooled_processes(contents.records)), {most}); });
  if (kind == "plan-verification")
    return text_only([&](int most) { return text_page(verification_page(contents.records), {most}); });
  if (kind == "doctor") return report_doctor(folder_of(run_dir), contents, write, width);
  throw Error(Cause::usage, fmt::format("{} is a {} run, of which there is no report", run_dir, printable(kind, 40)),
              "the run folder of a study, train, links, collectives, arena, onesided, sensor bench, doctor or bench");
}

}  // namespace

ReportOutcome run_report(const std::string& run_dir, bool write, int width) {
  ReportOutcome outcome = report_of(run_dir, write, width);
  const auto failure = failure_of(folder_of(run_dir));
  if (!failure) return outcome;
  const std::string end = "\n" + failure_text(*failure);
  outcome.text += end;
  if (outcome.report_path.ends_with(".txt"))  // in Markdown it is a note
    write_atomic(outcome.report_path, read_file(outcome.report_path, Cause::store_corrupt) + end);
  return outcome;
}

StudySummary read_evidence(const std::string& run_dir) {
  const RunContents contents = read_measured(run_dir);
  if (contents.header.kind != "study")
    throw Error(Cause::usage, fmt::format("{} is a {} run: it compares nothing", run_dir, contents.header.kind),
                "the run folder of an amdahl study");
  return summarise_run(run_dir, contents.records);
}

Advice run_advise(const AdviseConfig& config) {
  if (config.model.empty() && config.num_parameters < 1)
    throw Error(Cause::usage, fmt::format("`num_parameters` is {}", config.num_parameters),
                "at least 1, for example 6.9M");
  if (config.batch_size < 1)
    throw Error(Cause::usage, fmt::format("`batch_size` is {}", config.batch_size), "at least 1, for example 64");
  AdviceRequest request;
  request.model = config.model;
  request.num_parameters =
      config.num_parameters > 0 ? config.num_parameters : resolve_model(config.model).num_parameters();
  request.global_batch = config.batch_size;
  if (config.policy == "study") {
    if (!config.evidence.empty())
      throw Error(Cause::usage, "records with `policy=study`, which uses none", "drop one of the two options");
    if (!config.machine.empty())
      throw Error(Cause::usage, "`machine` names a calibration but `policy=study` uses none",
                  "drop one of the two options");
    return advise_published(request);
  }
  if (config.policy != "measured")
    throw Error(Cause::usage, fmt::format("unknown policy '{}'", config.policy),
                choices_hint(config.policy, {"measured", "study"}));
  const auto without_records = [&](const Advice& advice) {
    if (advice.decision != "unknown" || config.machine.empty()) return advice;
    const CalibratedMachine found = load_calibrated(config.machine, "");
    const auto own = static_cast<int64_t>(
        found.calibration.device_kind == "cpu-virtual" ? found.machine.num_cores : found.machine.devices.size());
    AdviceRequest about = request;
    about.max_devices = config.max_devices > 0 ? config.max_devices : std::max<int64_t>(2, own);
    return advise_predicted(about,
                            config.model.empty() ? dense_model_of(request.num_parameters) : resolve_model(config.model),
                            found.calibration);
  };
  if (config.evidence.empty()) return without_records(advise_measured(request, {}));
  const StudySummary summary = read_evidence(config.evidence);
  for (const StudyComparison& c : summary.comparisons)  // any measured comparison may be used
    request.max_devices = std::max<int64_t>(request.max_devices, c.multi.devices);
  return without_records(advise_measured(request, summary));
}

}  // namespace amdahl
