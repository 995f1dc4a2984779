// Verbs that export a run to other programs: tables and metrics.
#include "amdahl/report.h"

#include "report/export/export.h"
#include "spec/json.h"
#include "spec/run_folder.h"

namespace amdahl {

std::string metrics_text(const std::vector<Record>& records) { return prometheus_text(records); }

std::string run_metrics(const std::string& run_dir) {
  const RunContents contents = read_run(run_dir);
  if (contents.header.kind != "study") return prometheus_text(contents.records);
  const StudySummary summary = run_report(run_dir, false).summary;
  return prometheus_text(contents.records, &summary);
}

ExportOutcome run_export(const std::string& run_dir, ExportFormat format) {
  const RunContents contents = read_run(run_dir);
  ExportOutcome outcome;
  outcome.notes = contents.notes;
  if (format == ExportFormat::csv) {
    outcome.text = records_csv(contents.records);
    return outcome;
  }
  for (const Record& record : contents.records) outcome.text += record_to_json(record) + "\n";
  return outcome;
}

}  // namespace amdahl
