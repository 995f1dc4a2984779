// Shared by the files that define options: the parser library, validated values, options common to several commands.
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
#include "cli/help_format.h"
#include "cli/offers.h"

namespace amdahl::cli {

struct Command {
  CLI::App* app = nullptr;
  std::function<int(const std::string& command_line)> run;
};

/// Defines all commands.
std::vector<Command> define_commands(CLI::App& app);
Command define_study(CLI::App& app);
Command define_train(CLI::App& app);
Command define_plan(CLI::App& app);
Command define_calibrate(CLI::App& app);
Command define_compare(CLI::App& app);
Command define_bench(CLI::App& app);
Command define_run(CLI::App& app);
Command define_report(CLI::App& app);
Command define_info(CLI::App& app);
Command define_doctor(CLI::App& app);
Command define_links(CLI::App& app);
Command define_collectives(CLI::App& app);
Command define_all(CLI::App& app);
/// `sensor` and its commands.
std::vector<Command> define_sensor_commands(CLI::App& app);
Command define_sensor_bench(CLI::App& sensor);
/// The hidden option that writes completion scripts and manual pages when the program is installed.
void define_shell_files(CLI::App& app, std::string& folder);
int write_shell_files(CLI::App& app, const std::string& folder);

/// Parses `--grid`: "128" or "200x200x40".
std::array<int64_t, 3> parse_grid(const std::string& text);

/// Lets every option of `app` and its subcommands whose value is a number take the suffixes of its unit (--timeout 5m,
/// --rel-ci 1%), and refuse what is no number of that unit.
void read_numbers(CLI::App& app);
/// The unit of an option whose value is a number, by its name: one name has one unit in all commands.
std::optional<Unit> unit_of(const CLI::Option& option);

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
/// Error{usage} for each of `options` that was given: they have no effect `with` what else was.
void refuse_options(const CLI::App& app, std::initializer_list<const char*> options, const std::string& with,
                    const std::string& remedy);
/// Error{usage} when the option was given and its value is below 1; without it, 0 stands for the default.
void require_positive(const CLI::App& app, const std::string& option, int64_t value);

/// `--json` and `--quiet`.
void add_output_options(CLI::App* app, OutputOptions& output);

/// `--html`: a page of the run.
void add_html(CLI::App* app, OutputOptions& output);
/// Checks the place of the page. The page is made from the run's records: without an output folder they go to
/// default_run_dir(verb).
void finish_html(const OutputOptions& output, std::string& output_dir, const char* verb);

/// `--backend` and `--gpus`.
void add_backend(CLI::App* app, std::string& backend, std::string& gpus);
/// `--device-speeds`: "1,0.5".
void add_device_speeds(CLI::App* app, std::string& speeds);
std::vector<double> parse_speeds(const std::string& speeds);
/// `--seed` and `--timeout`.
void add_seed(CLI::App* app, uint64_t& seed, const std::string& help = "Seed of the data");
void add_timeout(CLI::App* app, double& seconds);
/// `-o, --output-dir` and `--overwrite`.
void add_output_dir(CLI::App* app, std::string& folder, const std::string& usual = "none");

/// While a command with --overwrite runs, the earlier run of its --output-dir lies aside: it is removed when the
/// command has recorded a new one, and otherwise put back.
class Overwriting {
 public:
  explicit Overwriting(const CLI::App& app);
  ~Overwriting();
  Overwriting(const Overwriting&) = delete;
  Overwriting& operator=(const Overwriting&) = delete;

 private:
  std::string dir_, aside_;
};

/// `--comm`: whose collectives the ranks use. A file is a table of `amdahl collectives --onesided`.
void add_comm(CLI::App* app, std::string& comm);
/// Splits the value of `--comm` into the name and the file of a table.
void finish_comm(std::string& comm, std::string& table);

/// `--machine FILE`: reads the machine, and sets the environment variables that its quarantined pairs need, before NCCL
/// is opened. Reports them on stderr. Does nothing without a file.
void use_machine(const std::string& file, MachineSpec& machine);

/// `--processes`: the number of fresh processes for a measurement.
void add_fresh_processes(
    CLI::App* app, FreshProcesses& processes,
    const std::string& help = "Repeat all of it in this many fresh processes; compare needs several");
/// Sets the command that starts the child processes. In a child process, sets its slice and `output_dir`, and makes it
/// quiet.
void finish_fresh_processes(const CLI::App& app, FreshProcesses& processes, std::string& output_dir,
                            OutputOptions& output);

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
