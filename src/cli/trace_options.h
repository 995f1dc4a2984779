// Options for tracing single steps.
#pragma once

#include <string>

#include "cli/option_values.h"

namespace amdahl::cli {

struct TraceTexts {
  std::string file, steps, cell;
};

void add_trace(CLI::App* app, TraceTexts& texts);
/// Error{usage} for invalid ranges and cells, and for the other options without --trace.
TraceConfig parse_trace(const CLI::App& app, const TraceTexts& texts);

}  // namespace amdahl::cli
