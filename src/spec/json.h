// JSON serialisation of the public types. The interface takes and returns text, so that no other folder includes the
// JSON library.
// Numbers are written as JSON numbers, missing values are omitted, and NaN or infinity throws Error{internal} on
// writing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "amdahl/bench.h"
#include "amdahl/comparison.h"
#include "amdahl/fabric.h"
#include "amdahl/machine.h"
#include "amdahl/plan.h"
#include "amdahl/planner.h"
#include "amdahl/record.h"
#include "amdahl/report.h"
#include "amdahl/sensor.h"
#include "amdahl/summary.h"

namespace amdahl {

/// Parses a model file (docs/schema/model.schema.json), or a config.json of Hugging Face, which has a "model_type";
/// `origin` names the file in errors. Throws Error{usage} for a wrong or unknown field, with the nearest known name,
/// and Error{version_refused}.
ModelSpec model_from_json(std::string_view text, std::string_view origin);
/// Reads and parses the model file at `path`. Error{usage} when it cannot be read.
ModelSpec load_model(const std::string& path);
std::string model_to_json(const ModelSpec& model);
/// The files that model.safetensors.index.json names, each once, sorted. Error{data_corrupt}.
std::vector<std::string> shards_from_json(std::string_view text, std::string_view origin);

/// One Record with its complete provenance, as one line. Reading throws Error{store_corrupt}.
std::string record_to_json(const Record& record);
/// {"version": 1, "records": [...]}, each with its complete provenance.
std::string records_to_json(const std::vector<Record>& records);
Record record_from_json(std::string_view text, std::string_view origin);

std::string machine_to_json(const MachineSpec& machine);
MachineSpec machine_from_json(std::string_view text, std::string_view origin);
/// {"version": 1, "machine": {...}, "records": [...]}.
std::string links_to_json(const MachineSpec& machine, const std::vector<Record>& records);
/// Format: docs/schema/bench.schema.json.
std::string bench_to_json(const BenchOutcome& outcome, const std::string& verdict);
/// Format: docs/schema/doctor.schema.json; amdahl reads it with doctor_from_json. Serialises machine, findings,
/// checked, unseen, records and failed.
std::string doctor_to_json(const DoctorOutcome& outcome);
/// Format: docs/schema/onesided.schema.json. Reading throws Error{usage} or Error{version_refused}; it leaves out the
/// rules.
std::string choices_to_json(const std::vector<OneSidedChoice>& choices);
std::vector<OneSidedChoice> choices_from_json(std::string_view text, std::string_view origin);
std::string backends_to_json(const std::vector<BackendStatus>& backends);
/// The JSON output of `amdahl info`.
std::string info_to_json(const std::string& version, const std::string& commit, const MachineSpec& machine,
                         const std::vector<BackendStatus>& backends);

/// Format: docs/schema/summary.schema.json. Reading throws Error{store_corrupt} or Error{version_refused}.
std::string summary_to_json(const StudySummary& summary);
StudySummary summary_from_json(std::string_view text, std::string_view origin);

/// The JSON output of `amdahl compare` and `amdahl advise`; write-only.
std::string comparison_to_json(const RunsComparison& comparison, const std::string& verdict);
/// Format: docs/schema/cost.schema.json; write-only.
std::string cost_to_json(const CostReport& report, const std::string& verdict);
/// Format: docs/schema/sensor-comparison.schema.json; write-only.
std::string sensor_comparison_to_json(const SensorComparison& comparison);
std::string advice_to_json(const Advice& advice);
/// Format: docs/schema/outlook.schema.json; write-only.
std::string outlook_to_json(const ScalingOutlook& outlook);
/// Format: docs/schema/plans.schema.json; write-only.
std::string plans_to_json(const PlansOutcome& outcome);

/// The JSON output of `amdahl sensor voxelize`, `resample` and `fuse`; write-only.
std::string voxelize_to_json(const VoxelizeOutcome& outcome);
std::string timeline_to_json(const TimelineOutcome& outcome);

}  // namespace amdahl
