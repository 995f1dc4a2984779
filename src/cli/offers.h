// What a shell offers for the value of an option. Values are checked where they are used: these only help typing, and a
// test compares them with what a refused value's error names.
#pragma once

#include <CLI/CLI.hpp>
#include <initializer_list>
#include <string>
#include <vector>

namespace amdahl::cli {

struct Offer {
  std::vector<std::string> choices;
  bool several = false;  // choices may be joined with commas
  bool files = false;    // files and folders
};

/// One of `choices`.
void offer(CLI::App* app, const std::string& option, const std::vector<std::string>& choices);
/// Some of `choices`, joined with commas.
void offer_several(CLI::App* app, const std::string& option, const std::vector<std::string>& choices);
/// A list of values that cannot be enumerated, joined with commas, for each of `options`.
void offer_lists(CLI::App* app, std::initializer_list<const char*> options);
/// Files and folders, for each of `options`.
void offer_files(CLI::App* app, std::initializer_list<const char*> options);

/// All that was offered for an option.
Offer offer_of(CLI::Option& option);

}  // namespace amdahl::cli
