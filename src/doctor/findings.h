// The table of checks behind `amdahl doctor`: each examines the evidence for one kind of fault.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amdahl/fabric.h"
#include "amdahl/record.h"

namespace amdahl {

/// Rates of a device while all devices work: the maximum over samples, which noise does not lower.
struct DeviceSpeed {
  int index = 0;
  double matrix_tflops = 0, copy_gbps = 0;  // 0: not measured
};

struct Evidence {
  MachineSpec machine;
  std::vector<DeviceState> idle, loaded;  // before the load, and during GEMMs
  std::vector<DeviceSpeed> speeds;
  HostState host;
  std::vector<Record> records;                     // records of links, integrity and collectives
  std::map<std::string, std::string> environment;  // of this process
  /// Transports reported in NCCL's log: "P2P/CUMEM", "SHM/direct/direct", "NET/Socket/0". Keys are ranks of one host.
  std::map<std::pair<int, int>, std::string> nccl_transports;
  double min_gbps = 0;
  std::vector<Finding> training;              // findings of a study (report/study/findings)
  std::vector<std::string> training_checked;  // names of the checks for which the study has evidence
};

using Findings = std::vector<Finding>;
inline constexpr auto kNotice = Finding::Severity::notice;
inline constexpr auto kWarning = Finding::Severity::warning;
inline constexpr auto kFault = Finding::Severity::fault;

struct FindingRow {
  std::string_view name;
  std::string_view looks_at;  // "peer access of every pair"
  std::vector<Finding> (*check)(const Evidence& evidence);
  bool (*has_evidence)(const Evidence& evidence);  // false: the check cannot be evaluated
};

const std::vector<FindingRow>& finding_table();
std::vector<Finding> find_all(const Evidence& evidence);

/// Parses NCCL's log (NCCL_DEBUG=INFO) for lines such as "... Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM".
std::map<std::pair<int, int>, std::string> parse_nccl_transports(const std::string& log);

// Rows of the table, by subject.
std::vector<FindingRow> topology_findings();
std::vector<FindingRow> health_findings();
std::vector<FindingRow> measured_findings();
std::vector<FindingRow> nccl_findings();
std::vector<FindingRow> training_rows();

/// "gpu 0 -> gpu 1".
std::string pair_name(int source, int destination);
std::string gpu_name(int index);

}  // namespace amdahl
