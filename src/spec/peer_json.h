// The JSON of other tools. Private to this folder.
#pragma once

#include "spec/json_fields.h"
#include "spec/measurements.h"

namespace amdahl {

/// Adds a record that has the file's provenance; Error{usage} when all of them would take too much memory.
void add_record(Measurements& found, Record record, const std::string& origin);

/// nccl-tests' -J, versions 1 to 3 of its format.
Measurements read_nccl_tests(const Fields& document, const std::string& origin);
/// Whether the "redop" and the "root" of one of nccl-tests' collectives ("all_reduce") mean something; nothing for
/// collectives that it does not measure.
struct CollectiveTraits {
  bool reduces, rooted;
};
std::optional<CollectiveTraits> nccl_tests_traits(std::string_view collective);
/// nvbandwidth's -j. What was waived or failed, and tests that are not known here, are noted.
Measurements read_nvbandwidth(const Fields& document, const std::string& origin);
/// What RoboCache's examples/multi_gpu scripts write, of one GPU and of several. Means of calls timed by the host; what
/// is not about fusing or voxelizing is noted.
Measurements read_robocache(const Fields& document, const std::string& origin);
/// Lines of benchmarks/fabric_vs_peers.py: nccl-tests and ours in turns. Axis "tool" says whose a record is, and each
/// round is a process.
bool is_beside_peers(const nlohmann::json& line);
Measurements read_beside_peers(const std::string& text, const std::string& origin);
/// benchmark_MODEL_MODE_gpu.json of the published training study: a list, one element a batch size.
Measurements read_published_study(const nlohmann::json& list, const std::string& origin);
/// Our own summary.json: cells by mean, sd and number of runs.
Measurements read_study_summary(const std::string& text, const std::string& origin);

}  // namespace amdahl
