// What link Records add up to, for the text, the drawing and the page of a links run.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"

namespace amdahl {

/// Records of kind "link", one test after another as they were measured.
using LinkTestGroup = std::pair<std::string, std::vector<const Record*>>;
std::vector<LinkTestGroup> link_test_groups(const std::vector<Record>& records);

struct IntegrityTotals {
  double transfers = 0, bytes = 0, bad_bytes = 0;
  size_t ways = 0, waived = 0, corrupt = 0;  // waived and corrupt ones are among the ways
  double injected = 0, found = 0;            // corruptions made on purpose; 0: none were
};
IntegrityTotals integrity_totals(const std::vector<Record>& records);

/// Part of what its links should carry that the least and the most of the pairs reach, 1 for all of it.
struct ExpectedParts {
  double least = 0, most = 0;
  int pairs = 0;
};
ExpectedParts expected_parts(const MachineSpec& machine);

/// Measured, and below 90 % of what is expected of it or below what was asked for (0: nothing was).
bool is_slow(const LinkSpec& link, double min_gbps);

/// The record that LinkSpec::measured_gbps of that pair comes from: of all copies between the two by the copy engines
/// of either end, in any size, the one with the highest median. Null where none was measured.
const Record* copy_engine_record(const std::vector<Record>& records, const LinkSpec& link, const MachineSpec& machine);
/// The last one of that test between them, as LinkSpec::latency_us is; null without it.
const Record* pair_record(const std::vector<Record>& records, const LinkSpec& link, const MachineSpec& machine,
                          const std::string& test);

/// "gpu 0", "cpu 1": a device as link Records name it.
std::string link_end(const MachineSpec& machine, int device);

/// GB/s of a transfer that takes alpha + bytes / beta.
double fitted_gbps(double alpha_us, double beta_gbps, double bytes);

}  // namespace amdahl
