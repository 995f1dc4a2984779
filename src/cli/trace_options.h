// `--trace`: single steps of a study.
#pragma once

#include <string>

#include "cli/option_values.h"

namespace amdahl::cli {

void add_trace(CLI::App* app, std::string& text);
/// "FILE,steps=10:13,batch=64,devices=2", each part at will. Error{usage} for invalid ranges and cells.
TraceConfig parse_trace(const std::string& text);

}  // namespace amdahl::cli
