// Readers of other tools' JSON. Private to this folder.
#pragma once

#include "spec/json_fields.h"
#include "spec/measurements.h"

namespace amdahl {

/// Appends a record with the file's provenance; Error{usage} when the records together would take too much memory.
void add_record(Measurements& found, Record record, const std::string& origin);

/// Output of nccl-tests' -J, format versions 1 to 3.
Measurements read_nccl_tests(const Fields& document, const std::string& origin);
/// Whether the fields "redop" and "root" apply to one of nccl-tests' collectives ("all_reduce"); nullopt for a
/// collective that amdahl does not measure.
struct CollectiveTraits {
  bool reduces, rooted;
};
std::optional<CollectiveTraits> nccl_tests_traits(std::string_view collective);
/// amdahl's name of a type of nccl-tests, "f32" for "float"; other types keep theirs.
std::string nccl_type_name(const std::string& type);
/// Where a result has its time in us and its bandwidths in GB/s.
struct CollectiveFields {
  const Fields* body;
  const char *time, *algbw, *busbw;
};
/// The series of one result, all of them positive; but a single rank has no bus, and its bandwidth of 0 is left out.
std::vector<Series> collective_series(const CollectiveFields& fields, int64_t ranks);
/// Output of rccl-tests' -Z json -x FILE: a list of results, or one result a line.
bool is_rccl_tests(const nlohmann::json& line);
Measurements read_rccl_tests(const nlohmann::json& list, const std::string& origin);
Measurements read_rccl_test_lines(const std::string& text, const std::string& origin);
/// Output of nvbandwidth's -j. Waived, failed and unknown tests are listed in notes.
Measurements read_nvbandwidth(const Fields& document, const std::string& origin);
/// Output of RoboCache's examples/multi_gpu scripts, for one GPU and for several. Values are means of calls timed by
/// the host. Results other than fusing and voxelizing are listed in notes.
Measurements read_robocache(const Fields& document, const std::string& origin);
/// Lines of benchmarks/fabric_vs_peers.py: nccl-tests and amdahl measured alternately. Axis "tool" names the tool that
/// measured a record; axis "process" is the round.
bool is_beside_peers(const nlohmann::json& line);
Measurements read_beside_peers(const std::string& text, const std::string& origin);
/// benchmark_MODEL_MODE_gpu.json of the published training study: a list with one element per batch size.
Measurements read_published_study(const nlohmann::json& list, const std::string& origin);
/// amdahl's own summary.json: each cell by mean, standard deviation and number of runs.
Measurements read_study_summary(const std::string& text, const std::string& origin);

}  // namespace amdahl
