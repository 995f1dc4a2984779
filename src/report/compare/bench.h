// Commands against each other: summary of their runs, and the page.
#pragma once

#include <string>
#include <vector>

#include "amdahl/bench.h"
#include "report/page/page.h"

namespace amdahl {

inline constexpr const char* kBenchRecord = "bench-run";
inline constexpr const char* kCommandAxis = "command";

/// The commands of "bench-run" records in the order of `names`, each tested against the first: runs of one round are a
/// pair, with Holm's adjustment over all commands. Failed records are left out.
std::vector<BenchedCommand> bench_commands(const std::vector<Record>& records, const std::vector<std::string>& names);
/// The commands in the order in which a run was given them.
std::vector<std::string> bench_names(const std::vector<Record>& records);

/// "sort -k is FASTER than sort: 1.31x [1.28, 1.34]." one sentence per command.
std::string bench_verdict(const std::vector<BenchedCommand>& commands);
Page bench_page(const std::vector<Record>& records);

}  // namespace amdahl
