// Options that hand results on to other programs.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "cli/option_values.h"

namespace amdahl::cli {

/// `--metrics-file`, of commands that measure.
void add_metrics(CLI::App* app, std::string& file);
/// Before anything is measured: Error{usage} when the file could not be written. Nothing for an empty name.
void require_metrics_place(const std::string& file);

Command define_export(CLI::App& app);

}  // namespace amdahl::cli
