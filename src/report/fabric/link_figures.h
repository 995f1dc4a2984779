// Totals and statistics of link records, for the text, the drawing and the page of a links run.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"

namespace amdahl {

/// Records of kind "link" grouped by test, in the order of measurement.
using LinkTestGroup = std::pair<std::string, std::vector<const Record*>>;
std::vector<LinkTestGroup> link_test_groups(const std::vector<Record>& records);

struct IntegrityTotals {
  double transfers = 0, bytes = 0, bad_bytes = 0;
  size_t paths = 0, waived = 0, corrupt = 0;  // ways: tested directions of pairs, including waived and corrupt ones
  // deliberately injected corruptions, and how many were detected; 0: none injected
  double injected = 0, found = 0;
};
IntegrityTotals integrity_totals(const std::vector<Record>& records);

/// Measured bandwidth relative to the expected one: minimum and maximum over pairs; 1 means all of it.
struct ExpectedParts {
  double least = 0, most = 0;
  int pairs = 0;
};
ExpectedParts expected_parts(const MachineSpec& machine);

/// Whether the link was measured and is below 90 % of the expected bandwidth or below `min_gbps` (0: no limit).
bool is_slow(const LinkSpec& link, double min_gbps);

/// The source record of LinkSpec::measured_gbps for a pair: among all copy-engine copies between the two devices, by
/// either device's engine and at any size, the one with the highest median. Null when none was measured.
const Record* copy_engine_record(const std::vector<Record>& records, const LinkSpec& link, const MachineSpec& machine);
/// The last record of `test` between the two devices, from which LinkSpec::latency_us is taken; null without one.
const Record* pair_record(const std::vector<Record>& records, const LinkSpec& link, const MachineSpec& machine,
                          const std::string& test);

/// "gpu 0", "cpu 1": the name of a device in link records.
std::string link_end(const MachineSpec& machine, int device);

/// Bandwidth in GB/s of a transfer that takes alpha + bytes / beta.
double fitted_gbps(double alpha_us, double beta_gbps, double bytes);

}  // namespace amdahl
