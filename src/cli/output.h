// Text for the user's terminal.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "amdahl/machine.h"

namespace amdahl::cli {

/// Prints as it is. Nobody may read stderr, and a run goes on without its progress; a result that cannot be printed is
/// std::system_error.
void put(std::FILE* to, std::string_view text);

/// Prints lines that may quote records, files and names: without bytes that a terminal would act on, and with colours
/// where `has_color`. JSON is printed as it is, since it has its own escapes.
void show(std::FILE* to, std::string_view lines);

/// Names a file that was written on stdout, unless it is stdout.
void show_written(const std::string& file);

/// Writes a machine file and says which quarantined pairs of the one that was there are kept.
void save_measured(const std::string& file, const MachineSpec& machine);

}  // namespace amdahl::cli
