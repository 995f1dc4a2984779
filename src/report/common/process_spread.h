// Spread of results between fresh processes on one machine, from runs distributed over several processes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "stats/processes.h"

namespace amdahl {

/// Minimum number of processes for a calibration: with fewer, the relative uncertainty of the spread exceeds 40 %.
inline constexpr int64_t kFewestCalibrationProcesses = 5;

/// The process that measured a record: its axis "process", 0 without it. Throws damaged_record for a wrong type.
int64_t process_of(const Record& record);

/// The axes of a cell as text, without "run" and "process": the key of a ProcessSpread.
std::string spread_cell(const std::map<std::string, AxisValue>& axes);

/// One spread per cell (study-run: step_time; collective, sensor: time; link: bandwidth or latency) that at least
/// kFewestCalibrationProcesses processes measured.
std::vector<ProcessSpread> spreads_in(const std::vector<Record>& records);

/// Pools records that differ only in axis "process" into one, at the position of the first, for tables and charts.
/// Series with one sample become the median over the processes; other series are concatenated. If one of the records
/// failed, the pooled one fails, with the process in the reason.
std::vector<Record> pooled_processes(const std::vector<Record>& records);

/// Merges two lists: spreads of `fresh` replace those of `known` for the same cell.
std::vector<ProcessSpread> merge_spreads(std::vector<ProcessSpread> known, const std::vector<ProcessSpread>& fresh);

/// The spread for a cell: its own, otherwise the largest of its kind of record and device; nullopt without one.
std::optional<CalibratedSpread> find_spread(const std::vector<ProcessSpread>& spreads, const std::string& kind,
                                            const std::string& device_kind, const std::string& cell);

}  // namespace amdahl
