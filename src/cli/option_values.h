// What the files that define options share: the parser's library, checked values, options of every command.
//
// A command is defined once and run once, after parsing; what it parses into lives with its `run`.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/offers.h"

namespace amdahl::cli {

struct Command {
  CLI::App* app = nullptr;
  std::function<int(const std::string& command_line)> run;
};

/// All of them.
std::vector<Command> define_commands(CLI::App& app);
/// Each adds its commands to the parser.
std::vector<Command> define_training_commands(CLI::App& app);
std::vector<Command> define_reading_commands(CLI::App& app);
std::vector<Command> define_fabric_commands(CLI::App& app);
std::vector<Command> define_sensor_commands(CLI::App& app);
std::vector<Command> define_shell_commands(CLI::App& app);
/// Commands with a file of options each.
Command define_all(CLI::App& app);
Command define_compare(CLI::App& app);
Command define_calibrate(CLI::App& app);
Command define_cost(CLI::App& app);
Command define_report(CLI::App& app);
/// Commands below `sensor`, a file each.
Command define_sensor_bench(CLI::App& sensor);
/// "128" or "200x200x40" of `--grid`.
std::array<int64_t, 3> parse_grid(const std::string& text);

/// Whole numbers as they are written in decimal, signed and not; CLI11 alone reads 010 as 8, 0x10 as 16, and what is
/// too large as the largest number that fits.
extern const CLI::Validator kWhole, kNatural;
/// Refuses 0x10 and text behind a number, in every option of `app` and its commands that takes a fraction.
void check_fractions(CLI::App& app);
/// A number in decimal, the whole of `text`; none otherwise.
std::optional<double> parse_decimal(const std::string& text);

/// "id,name" to its items. As in a CSV file, quotes keep the comma of a name: '"price, net",id'.
std::vector<std::string> split_list(const std::string& list);

/// "0,2" to device indices.
std::vector<int> parse_gpus(const std::string& list);

/// The value that `text` names; Error{usage} with what may be named.
template <class T>
T one_of(const std::string& option, const std::string& text, const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names.push_back(name);
  }
  throw Error(Cause::usage, fmt::format("{}: unknown value '{}'", option, text), choices_hint(text, names));
}

/// As above where only the name matters.
void require_one_of(const std::string& option, const std::string& text, const std::vector<std::string>& names);

void add_talk(CLI::App* app, Talk& talk);

/// `--machine FILE`: the machine it describes, and the environment that its quarantined pairs ask for, in place before
/// anything opens NCCL. Says so on stderr. Nothing without a file.
void use_machine(const std::string& file, MachineSpec& machine);

/// Option `name` (`--processes`, `--repeat`): over how many fresh processes a measurement is spread.
void add_fresh_processes(CLI::App* app, const std::string& name, const std::string& help, FreshProcesses& processes);
inline constexpr const char* kRepeatHelp = "Repeat all of it in this many fresh processes; compare needs several";
/// What the processes are started with, or, in one of them, what it is to do: then `output_dir` is where, and it is
/// quiet.
void finish_fresh_processes(const CLI::App& app, FreshProcesses& processes, std::string& output_dir, Talk& talk);

/// Ends the process with an error's line and exit code, from any thread: for a rank whose job is lost.
void end_at_once(const Error& error);

/// "results/local/VERB-TIME": git ignores it in a checkout.
std::string default_run_dir(const char* verb);

/// Refuses a file to write after measuring that is no file or cannot be written. Nothing for an empty name.
void require_place(const std::string& option, const std::string& file);
/// The same of `--machine FILE` of commands that write it, and refuses to replace what is no machine file.
void require_machine_place(const std::string& file);
/// Refuses what is no folder to read from.
void require_folder(const std::string& option, const std::string& folder);

}  // namespace amdahl::cli
