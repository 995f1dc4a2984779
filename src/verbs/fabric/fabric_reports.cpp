#include "verbs/fabric/fabric_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "measure/links/machine.h"
#include "report/common/process_spread.h"
#include "report/fabric/onesided_choice.h"
#include "spec/doctor_file.h"
#include "spec/json.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReportFile = "report.txt";

bool any_failed(const std::vector<Record>& records) {
  return std::any_of(records.begin(), records.end(),
                     [](const Record& record) { return record.status.kind == Status::Kind::failed; });
}

/// The report of a run whose outcome follows from its records alone.
template <class Outcome>
ReportOutcome report_of(const fs::path& folder, const RunContents& contents, bool write, int width,
                        void (*conclude)(Outcome&), void (*write_report)(const fs::path&, const Outcome&)) {
  Outcome outcome;
  outcome.records = contents.records;
  conclude(outcome);
  ReportOutcome report;
  report.notes = contents.notes;
  report.text = to_text(outcome, width);
  report.json = to_json(outcome);
  if (!write) return report;
  write_report(folder, outcome);
  report.report_path = (folder / kReportFile).string();
  return report;
}

}  // namespace

double min_gbps_of(const RunHeader& header) {
  const auto found = header.config.find(kMinGbpsKey);
  return found == header.config.end() ? 0 : std::strtod(found->second.c_str(), nullptr);
}

MachineSpec machine_of_run(const fs::path& folder, const std::vector<Record>& records,
                           std::vector<std::string>& notes) {
  const fs::path file = folder / kMachineFile;
  if (!fs::exists(file)) {
    notes.push_back(file.string() + " is not there: the expected bandwidth of the links is not known");
    return machine_of_records(records);
  }
  MachineSpec machine = machine_from_json(read_file(file, Cause::store_corrupt), file.string());
  forget_measurements(machine);  // they are recomputed from the records
  return machine;
}

void conclude_links(LinksOutcome& outcome, double min_gbps) {
  note_links(outcome.machine, pooled_processes(outcome.records));
  outcome.slow = slow_links(outcome.machine, min_gbps);
  outcome.failed = any_failed(outcome.records) || !outcome.slow.empty();
}

void conclude_collectives(CollectivesOutcome& outcome) { outcome.failed = any_failed(outcome.records); }

void write_links_report(const fs::path& folder, const LinksOutcome& outcome) {
  write_atomic(folder / kReportFile, to_text(outcome));
  if (const std::string heat_map = to_svg(outcome); !heat_map.empty()) write_atomic(folder / "heat-map.svg", heat_map);
}

void write_collectives_report(const fs::path& folder, const CollectivesOutcome& outcome) {
  write_atomic(folder / kReportFile, to_text(outcome));
  if (const std::string curves = to_svg(outcome); !curves.empty()) write_atomic(folder / "curves.svg", curves);
}

ReportOutcome report_links(const fs::path& folder, const RunContents& contents, bool write, int width) {
  ReportOutcome report;
  report.notes = contents.notes;
  LinksOutcome outcome;
  outcome.records = contents.records;
  const bool known = fs::exists(folder / kMachineFile);
  outcome.machine = machine_of_run(folder, contents.records, report.notes);
  conclude_links(outcome, min_gbps_of(contents.header));
  report.text = to_text(outcome, width);
  report.json = known ? to_json(outcome) : records_to_json(contents.records);
  if (!write) return report;
  write_links_report(folder, outcome);
  report.report_path = (folder / kReportFile).string();
  return report;
}

ReportOutcome report_collectives(const fs::path& folder, const RunContents& contents, bool write, int width) {
  return report_of(folder, contents, write, width, conclude_collectives, write_collectives_report);
}

void conclude_onesided(OneSidedOutcome& outcome) {
  outcome.choices = onesided_choices(outcome.records);
  outcome.failed = any_failed(outcome.records);
}

void write_onesided_report(const fs::path& folder, const OneSidedOutcome& outcome) {
  write_atomic(folder / kReportFile, to_text(outcome));
  write_atomic(folder / kChoiceFile, to_choice_json(outcome) + "\n");
}

ReportOutcome report_onesided(const fs::path& folder, const RunContents& contents, bool write, int width) {
  return report_of(folder, contents, write, width, conclude_onesided, write_onesided_report);
}

DoctorRun read_doctor_run(const fs::path& folder, const std::vector<Record>& records) {
  DoctorRun run;
  const fs::path file = folder / kDoctorFile;
  run.judged = fs::exists(file);
  if (run.judged)
    run.outcome = doctor_from_json(read_file(file, Cause::store_corrupt), file.string());
  else
    run.notes.push_back(file.string() + " is not there: the findings are unknown");
  run.outcome.records = records;
  run.outcome.machine = machine_of_run(folder, records, run.notes);
  note_links(run.outcome.machine, records);
  return run;
}

ReportOutcome report_doctor(const fs::path& folder, const RunContents& contents, bool write, int width) {
  const DoctorRun run = read_doctor_run(folder, contents.records);
  if (!run.judged)
    throw Error(Cause::store_corrupt, run.notes.front(),
                fmt::format("amdahl report {} `html=FILE`, a page of what was measured", folder.string()));
  ReportOutcome report;
  report.notes = contents.notes;
  report.notes.insert(report.notes.end(), run.notes.begin(), run.notes.end());
  report.text = to_text(run.outcome, width);
  report.json = to_json(run.outcome);
  if (!write) return report;
  write_atomic(folder / kReportFile, to_text(run.outcome));
  report.report_path = (folder / kReportFile).string();
  return report;
}

}  // namespace amdahl
