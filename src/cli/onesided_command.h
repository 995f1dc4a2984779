// `amdahl collectives --onesided`: put, get, signals and atomics against messages and collectives.
#pragma once

#include <memory>
#include <string>

#include "cli/option_values.h"

namespace amdahl::cli {

struct OneSidedArgs {
  OneSidedConfig config;
  std::string kind = "operations";  // operations, patterns, gemm, norm, locality
  std::string operations = "all", ranks = "threads,processes", threads = "256", blocks = "1", peers, shapes,
              tiles = "1,4";
  std::string table;  // file to write
};

/// Options that only `--onesided` has, and `--onesided` itself.
void add_onesided_options(CLI::App* app, OneSidedArgs& args);
inline constexpr const char* kOneSidedOptions =
    "--onesided +--operations +--shapes +--tiles +--ranks +--partitions +--least-sample-us +--threads +--blocks "
    "+--peers "
    "+--table";
/// `sweep` has the values of the options that it shares with collectives, as they were given.
int run_parsed_onesided(const CLI::App& app, OneSidedArgs& args, const CollectivesConfig& sweep,
                        const OutputOptions& output);

}  // namespace amdahl::cli
