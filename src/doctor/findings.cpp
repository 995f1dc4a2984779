#include "doctor/findings.h"

#include <fmt/format.h>

#include "amdahl/error.h"

namespace amdahl {

std::string gpu_name(int index) { return fmt::format("gpu {}", index); }
std::string pair_name(int source, int destination) { return fmt::format("gpu {} -> gpu {}", source, destination); }

const std::vector<FindingRow>& finding_table() {
  static const std::vector<FindingRow> rows = [] {
    std::vector<FindingRow> all;
    for (const auto part : {topology_findings, health_findings, measured_findings, nccl_findings, training_rows})
      for (const FindingRow& row : part()) all.push_back(row);
    return all;
  }();
  return rows;
}

std::vector<Finding> find_all(const Evidence& evidence) {
  std::vector<Finding> findings;
  for (const FindingRow& row : finding_table())
    for (Finding& finding : row.check(evidence)) {
      finding.name = row.name;
      finding.remedy = named(finding.remedy);
      findings.push_back(std::move(finding));
    }
  return findings;
}

}  // namespace amdahl
