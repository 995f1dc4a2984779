// What runs show to other programs: tables, records, metrics.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// Records in the text format of Prometheus, as node_exporter's textfile collector reads it: medians and means as
/// gauges in base units, with the number of samples.
AMDAHL_API std::string metrics_text(const std::vector<Record>& records);
/// The same of a run folder, with the verdicts of a study.
AMDAHL_API std::string run_metrics(const std::string& run_dir);

enum class ExportFormat {
  csv,   // a row a sample
  jsonl  // a line a record, each with its whole provenance
};
struct ExportOutcome {
  std::string text;
  std::vector<std::string> notes;  // what could not be read
};
/// The records of a run folder. Error{usage} where no run is, Error{store_corrupt}, Error{version_refused}.
AMDAHL_API ExportOutcome run_export(const std::string& run_dir, ExportFormat format);

}  // namespace amdahl
