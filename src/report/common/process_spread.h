// How far fresh processes of one machine lie apart, from runs that were spread over several.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "stats/processes.h"

namespace amdahl {

/// A spread of fewer processes than this is no calibration: its own uncertainty would be above 40 %.
inline constexpr int64_t kFewestCalibrationProcesses = 5;

/// The process that measured a record: its axis "process", 0 without one. Throws damaged_record for other types.
int64_t process_of(const Record& record);

/// A cell's axes as text, without "run" and "process": what a ProcessSpread is found by.
std::string spread_cell(const std::map<std::string, AxisValue>& axes);

/// One spread for each cell of these records (study-run: step_time; collective, sensor: time; link: bandwidth or
/// latency) that at least kFewestCalibrationProcesses processes measured.
std::vector<ProcessSpread> spreads_in(const std::vector<Record>& records);

/// Records as one process would have left them, for tables and charts: of those that differ in axis "process" alone one
/// is left, in the place of the first. A series of single numbers becomes their median, one of several samples all of
/// them; a failed one among them fails it, with the process in the reason.
std::vector<Record> pooled_processes(const std::vector<Record>& records);

/// `known` with those of the same cell replaced by `fresh`, the others kept.
std::vector<ProcessSpread> merge_spreads(std::vector<ProcessSpread> known, const std::vector<ProcessSpread>& fresh);

/// The spread to judge a cell by: its own, else the largest of its kind of record and device; nothing without one.
std::optional<CalibratedSpread> find_spread(const std::vector<ProcessSpread>& spreads, const std::string& kind,
                                            const std::string& device_kind, const std::string& cell);

}  // namespace amdahl
