// Input of one side of a comparison: a run folder, the JSON output of amdahl, or the JSON files of nccl-tests (-J),
// nvbandwidth (-j), RoboCache's benchmarks and the published training study.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

struct Measurements {
  std::string kind;  // kind of the run: "study", "train", "collectives", "links", "sensor", "doctor"
  std::string tool;  // tool and version that measured: "amdahl 0.1.0", "nvbandwidth v0.8"
  std::vector<Record> records;
  std::vector<std::string> notes;  // what was skipped, and why
  bool foreign = false;            // measured by another tool: axes that only one side has are ignored in matching

  std::optional<StudySummary> summary = std::nullopt;  // set for a study's summary.json, whose records hold means only
};

/// Axis of files with results of several tools: the tool that measured the record.
inline constexpr const char* kToolAxis = "tool";

/// Whether another tool measured this record: its provenance has the fact "tool".
inline bool is_foreign(const Record& record) { return record.provenance.facts.contains("tool"); }

/// Reads `path` in any of these formats, detected from the contents and not from the name. Records of other tools carry
/// only the fields that amdahl's records have too: kind "collective" (axes collective, dtype, op, root, devices, bytes,
/// count, in_place, launch; series time in us, algbw and busbw in GB/s, wrong) and kind "link" (axes test, source,
/// destination; series bandwidth in GB/s or latency in us); RoboCache's kind "sensor" (axes op, mode, devices, dtype,
/// workload, items, launch, cache, voxel_mode; series time in us, throughput); the published study's kind "study-run"
/// (axes num_parameters, global_batch, devices, run; series throughput in samples/s). A summary.json gives records of
/// kind "study-run" whose series step_time and throughput are means of runs; summary_in returns their other statistics.
/// Throws what read_run throws; for a JSON file Error{usage} naming file and key, and Error{version_refused}.
Measurements read_measurements(const std::filesystem::path& path);

/// Statistics of a series in a record of a summary.json; nullopt for a measured record.
std::optional<SampleSummary> summary_in(const Record& record, const std::string& series);

}  // namespace amdahl
