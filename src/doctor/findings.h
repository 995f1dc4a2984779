// What can be wrong with a machine, each as a check of evidence: the table behind `amdahl doctor`.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amdahl/fabric.h"
#include "amdahl/record.h"

namespace amdahl {

/// Rates of a device while all of them work: the best of its samples, which noise does not lower.
struct DeviceSpeed {
  int index = 0;
  double matrix_tflops = 0, copy_gbps = 0;  // 0: not measured
};

struct Evidence {
  MachineSpec machine;
  std::vector<DeviceState> idle, loaded;  // before anything ran, and in the midst of matrix products
  std::vector<DeviceSpeed> speeds;
  HostState host;
  std::vector<Record> records;                     // of links, integrity and collectives
  std::map<std::string, std::string> environment;  // of this process
  /// What NCCL says it moves data by: "P2P/CUMEM", "SHM/direct/direct", "NET/Socket/0". Ranks of one host.
  std::map<std::pair<int, int>, std::string> nccl_transports;
  double min_gbps = 0;
  std::vector<Finding> training;              // what a study shows (report/study/findings)
  std::vector<std::string> training_checked;  // names of what it has evidence for or against
};

using Findings = std::vector<Finding>;
inline constexpr auto kNotice = Finding::Severity::notice;
inline constexpr auto kWarning = Finding::Severity::warning;
inline constexpr auto kFault = Finding::Severity::fault;

struct FindingRow {
  std::string_view name;
  std::string_view looks_at;  // "peer access of every pair"
  std::vector<Finding> (*check)(const Evidence& evidence);
  bool (*has_evidence)(const Evidence& evidence);  // false: nothing can be said either way
};

const std::vector<FindingRow>& finding_table();
std::vector<Finding> find_all(const Evidence& evidence);

/// Lines of NCCL's log (NCCL_DEBUG=INFO): "... Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM".
std::map<std::pair<int, int>, std::string> parse_nccl_transports(const std::string& log);

// The rows by what they look at; each adds its own to the table.
std::vector<FindingRow> topology_findings();
std::vector<FindingRow> health_findings();
std::vector<FindingRow> measured_findings();
std::vector<FindingRow> nccl_findings();
std::vector<FindingRow> training_rows();

/// "gpu 0 -> gpu 1".
std::string pair_name(int source, int destination);
std::string gpu_name(int index);

}  // namespace amdahl
