// A measurement spread over fresh processes of this program, one after another, all appending to one run folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/amdahl.h"
#include "spec/run_folder.h"

namespace amdahl {

/// Error{usage} when the counts make no sense, the program is not named, or a launcher started this process. `field`
/// names the count in messages.
void check_fresh_processes(const FreshProcesses& processes, const std::map<std::string, std::string>& environment,
                           const char* field);

/// Runs the slices one after another, each in a process of its own that appends to its `run_dir`, a run folder that
/// nobody holds open. A process's warnings go to the observer and its error is thrown here, with its number;
/// Error{interrupted} when the observer says so.
void run_fresh_processes(const FreshProcesses& processes, const std::map<std::string, std::string>& environment,
                         const std::vector<FreshProcesses::Slice>& slices, Observer& observer);

/// The run folder that a measurement writes into: a new one, or in one of several processes the one they share.
RunFolder open_run_folder(const FreshProcesses& processes, const std::string& run_dir, const RunHeader& header);

/// Axis "process" of what one of several processes measured.
void mark_process(Record& record, const FreshProcesses& processes);

/// Records of a measurement that each process does the whole of, into a new run folder; into one that goes with this
/// call where `run_dir` is empty.
std::vector<Record> repeat_in_processes(const FreshProcesses& processes,
                                        const std::map<std::string, std::string>& environment,
                                        const std::string& run_dir, const RunHeader& header, Observer& observer);

}  // namespace amdahl
