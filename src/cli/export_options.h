// Options that export results to other programs.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "cli/option_values.h"

namespace amdahl::cli {

/// Adds `--metrics-file`, for commands that measure.
void add_metrics(CLI::App* app, std::string& file);
/// Error{usage} when the file could not be written; called before measuring. Does nothing for an empty name.
void require_metrics_place(const std::string& file);

Command define_export(CLI::App& app);

}  // namespace amdahl::cli
