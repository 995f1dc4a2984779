// `--advise` of plan and report: one device or several?
#pragma once

#include <string>

#include "amdahl/comparison.h"
#include "cli/option_values.h"

namespace amdahl::cli {

struct AdviseOptions {
  AdviseConfig config;
  std::string parameters;
};

/// `--advise` and `--params`.
void add_advise(CLI::App* app, AdviseOptions& options);
int show_advice(AdviseOptions& options, const OutputOptions& output);

}  // namespace amdahl::cli
