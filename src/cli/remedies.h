// Remedies of usage errors that can be typed: they name the command, its option and a value for it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "amdahl/error.h"

namespace amdahl::cli {

/// "sensor voxelize" of the command that was parsed; empty for the program itself.
std::string command_words(const CLI::App& command);
/// The command that was named; `app` itself without one.
const CLI::App& used_command(const CLI::App& app);

/// The error for a word that the parser does not know, with the nearest known one.
Error unknown_word(const CLI::App& app, const std::vector<std::string>& words);

/// The error with its remedy as a command: "--timeout 5m" and "gpt2? or one of medium, gpt2" become
/// "amdahl study --timeout 5m" and "amdahl study --model gpt2, or one of medium, gpt2". Other errors stay as they are.
Error with_command(const Error& error, const CLI::App& app, const std::vector<std::string>& words);

}  // namespace amdahl::cli
