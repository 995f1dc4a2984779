// Distributes a measurement over fresh processes of this program, started one after another, which all append to one
// run folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "spec/run_folder.h"

namespace amdahl {

/// Error{usage} when the counts are invalid, the program's path is missing, or a launcher started this process. `field`
/// names the count in messages.
void check_fresh_processes(const FreshProcesses& processes, const std::map<std::string, std::string>& environment,
                           const char* field);

/// Runs the slices one after another, each in its own process that appends to its `run_dir`, a run folder that no
/// process holds open. Warnings of a process go to the observer; its error is thrown here, with the number of the
/// process. Error{interrupted} when the observer cancels.
void run_fresh_processes(const FreshProcesses& processes, const std::map<std::string, std::string>& environment,
                         const std::vector<FreshProcesses::Slice>& slices, Observer& observer);

/// The run folder to write to: a new one, or, in a child process, the shared one.
RunFolder open_run_folder(const FreshProcesses& processes, const std::string& run_dir, const RunHeader& header);

/// Sets axis "process" of a record that was measured by one of several processes.
void mark_process(Record& record, const FreshProcesses& processes);

/// Runs the complete measurement in each process and returns its records. They are written to a new run folder, or to a
/// temporary one when `run_dir` is empty.
std::vector<Record> repeat_in_processes(const FreshProcesses& processes,
                                        const std::map<std::string, std::string>& environment,
                                        const std::string& run_dir, const RunHeader& header, Observer& observer);

}  // namespace amdahl
