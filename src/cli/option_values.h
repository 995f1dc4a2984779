// Shared by the files that define options: the parser library, validated values, options common to all commands.
//
// A command is defined once and run at most once, after parsing; its `run` owns the parsed values.
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

/// Defines all commands.
std::vector<Command> define_commands(CLI::App& app);
/// Each adds a group of commands to the parser.
std::vector<Command> define_training_commands(CLI::App& app);
std::vector<Command> define_reading_commands(CLI::App& app);
std::vector<Command> define_fabric_commands(CLI::App& app);
std::vector<Command> define_sensor_commands(CLI::App& app);
std::vector<Command> define_shell_commands(CLI::App& app);
/// Commands whose options have a file of their own.
Command define_all(CLI::App& app);
Command define_onesided(CLI::App& app);
Command define_compare(CLI::App& app);
Command define_calibrate(CLI::App& app);
Command define_plan(CLI::App& app);
Command define_cost(CLI::App& app);
Command define_report(CLI::App& app);
/// Subcommands of `sensor` whose options have a file of their own.
Command define_sensor_bench(CLI::App& sensor);
/// Parses `--grid`: "128" or "200x200x40".
std::array<int64_t, 3> parse_grid(const std::string& text);

/// Decimal integers, signed and unsigned. CLI11 by itself reads 010 as 8, 0x10 as 16, and clamps numbers that are too
/// large.
extern const CLI::Validator kWhole, kNatural;
/// Makes every floating-point option of `app` and its subcommands reject 0x10 and trailing text.
void check_fractions(CLI::App& app);
/// Parses all of `text` as a decimal number; nullopt otherwise.
std::optional<double> parse_decimal(const std::string& text);

/// Splits "id,name" into items. Quotes protect commas as in CSV: '"price, net",id'.
std::vector<std::string> split_list(const std::string& list);

/// Parses "0,2" into device indices.
std::vector<int> parse_gpus(const std::string& list);

/// The value that `text` names; Error{usage} listing the choices otherwise.
template <class T>
T one_of(const std::string& option, const std::string& text, const std::vector<std::pair<std::string, T>>& choices) {
  std::vector<std::string> names;
  for (const auto& [name, value] : choices) {
    if (name == text) return value;
    names.push_back(name);
  }
  throw Error(Cause::usage, fmt::format("{}: unknown value '{}'", option, text), choices_hint(text, names));
}

/// Like one_of, for names without values.
void require_one_of(const std::string& option, const std::string& text, const std::vector<std::string>& names);

void add_talk(CLI::App* app, Talk& talk);

/// `--comm` and `--comm-table`: whose collectives the ranks use.
void add_comm(CLI::App* app, std::string& comm, std::string& table);

/// `--machine FILE`: reads the machine, and sets the environment variables that its quarantined pairs need, before NCCL
/// is opened. Reports them on stderr. Does nothing without a file.
void use_machine(const std::string& file, MachineSpec& machine);

/// Adds option `name` (`--processes`, `--repeat`): the number of fresh processes for a measurement.
void add_fresh_processes(CLI::App* app, const std::string& name, const std::string& help, FreshProcesses& processes);
inline constexpr const char* kRepeatHelp = "Repeat all of it in this many fresh processes; compare needs several";
/// Sets the command that starts the child processes. In a child process, sets its slice and `output_dir`, and makes it
/// quiet.
void finish_fresh_processes(const CLI::App& app, FreshProcesses& processes, std::string& output_dir, Talk& talk);

/// Ends the process with the error's message and exit code, from any thread; for a rank whose job is lost.
void end_at_once(const Error& error);

/// "results/local/VERB-TIME", a folder that git ignores in a checkout.
std::string default_run_dir(const char* verb);

/// Error{usage} when a file to be written after measuring is not a file or cannot be written. Does nothing for an empty
/// name.
void require_place(const std::string& option, const std::string& file);
/// Like require_place for `--machine FILE` of commands that write it; also refuses to replace a file that is not a
/// machine file.
void require_machine_place(const std::string& file);
/// Error{usage} when `folder` is not a readable folder.
void require_folder(const std::string& option, const std::string& folder);

}  // namespace amdahl::cli
