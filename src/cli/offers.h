// Completion candidates for option values. They do not validate: values are checked where they are used, and a test
// compares the candidates with those named in the errors.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>
#include <vector>

namespace amdahl::cli {

struct Offer {
  std::vector<std::string> choices;
  bool several = false;  // choices may be joined with commas
  bool files = false;    // complete file and folder names
};

/// Offers one of `choices`.
void offer(CLI::App* app, const std::string& option, const std::vector<std::string>& choices);
/// Offers a comma-separated list of `choices`.
void offer_several(CLI::App* app, const std::string& option, const std::vector<std::string>& choices);
/// For each of `options`: a comma-separated list of values that cannot be enumerated.
void offer_lists(CLI::App* app, std::initializer_list<const char*> options);
/// For each of `options`: file and folder names.
void offer_files(CLI::App* app, std::initializer_list<const char*> options);

/// The candidates of an option.
Offer offer_of(CLI::Option& option);

}  // namespace amdahl::cli
