// What one side of a comparison can be read from: a run folder, the JSON that amdahl prints, and the JSON files of
// nccl-tests (-J), nvbandwidth (-j), RoboCache's benchmarks and the published training study.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

struct Measurements {
  std::string kind;  // of the run: "study", "train", "collectives", "links", "sensor", "doctor"
  std::string tool;  // what measured, with its version: "amdahl 0.1.0", "nvbandwidth v0.8"
  std::vector<Record> records;
  std::vector<std::string> notes;  // what was left out, and why
  bool foreign = false;            // another tool's: axes that one side does not know tell nothing apart

  std::optional<StudySummary> summary = std::nullopt;  // of a study's summary.json, whose records are only its means
};

/// Of files with the figures of several tools: whose a record is.
inline constexpr const char* kToolAxis = "tool";

/// Whether another tool measured this record: its provenance has the fact "tool".
inline bool is_foreign(const Record& record) { return record.provenance.facts.contains("tool"); }

/// Reads whatever `path` is; the contents tell, not the name. Records of the other tools carry what they share with
/// ours and no more: kind "collective" (axes collective, dtype, op, root, devices, bytes, count, in_place, launch;
/// series time in us, algbw and busbw in GB/s, wrong) and kind "link" (axes test, source, destination; series bandwidth
/// in GB/s or latency in us); RoboCache's kind "sensor" (axes op, mode, devices, dtype, workload, items, launch, cache,
/// voxel_mode; series time in us, throughput); the published study's kind "study-run" (axes num_parameters,
/// global_batch, devices, run; series throughput in samples/s). A summary.json gives records of kind "study-run" whose
/// series step_time and throughput are means of runs; summary_in has the rest. Throws what read_run throws; for a JSON
/// file Error{usage} naming file and key, and Error{version_refused}.
Measurements read_measurements(const std::filesystem::path& path);

/// What a record of a summary.json says about a series beside its mean; nothing for a record that was measured.
std::optional<SampleSummary> summary_in(const Record& record, const std::string& series);

}  // namespace amdahl
