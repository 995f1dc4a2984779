// Exports of runs for other programs: tables, records, metrics. The functions are thread-safe.
//
// Example:
//   const amdahl::ExportOutcome table = amdahl::run_export("runs/study", amdahl::ExportFormat::csv);
//   amdahl::save_text("study.csv", table.text);
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// Records in the Prometheus text format for node_exporter's textfile collector: medians and means as gauges in base
/// units, with the number of samples.
AMDAHL_API std::string metrics_text(const std::vector<Record>& records);
/// The metrics of a run folder, with the verdicts of a study. Errors as run_export, and as run_report for a study.
AMDAHL_API std::string run_metrics(const std::string& run_dir);

enum class ExportFormat {
  csv,   // one row per sample
  jsonl  // one line per record, each with its complete provenance
};
struct ExportOutcome {
  std::string text;
  std::vector<std::string> notes;  // what could not be read
};
/// The records of a run folder. Error{usage} when the folder holds no run, Error{store_corrupt} for damaged records,
/// Error{version_refused} for an unknown schema version.
AMDAHL_API ExportOutcome run_export(const std::string& run_dir, ExportFormat format);

}  // namespace amdahl
