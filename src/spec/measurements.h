// What one side of a comparison can be read from: a run folder, the JSON that amdahl prints, and the JSON files of
// nccl-tests (-J) and nvbandwidth (-j).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

struct Measurements {
  std::string kind;  // of the run: "study", "train", "collectives", "links", "sensor", "doctor"
  std::string tool;  // what measured, with its version: "amdahl 0.1.0", "nvbandwidth v0.8"
  std::vector<Record> records;
  std::vector<std::string> notes;  // what was left out, and why
};

/// Reads whatever `path` is; the contents tell, not the name. Records of the other tools carry what they share with
/// ours and no more: kind "collective" (axes collective, dtype, op, root, devices, bytes, count, in_place, launch;
/// series time in us, algbw and busbw in GB/s, wrong) and kind "link" (axes test, source, destination; series bandwidth
/// in GB/s or latency in us). Throws what read_run throws; for a JSON file Error{usage} naming file and key, and
/// Error{version_refused}.
Measurements read_measurements(const std::filesystem::path& path);

}  // namespace amdahl
