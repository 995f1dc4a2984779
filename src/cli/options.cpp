// The complete command line: selects the command, and reports unknown words.
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <vector>

#include "cli/color.h"
#include "cli/command_tree.h"
#include "cli/environment.h"
#include "cli/field_options.h"
#include "cli/help_format.h"
#include "cli/option_values.h"
#include "cli/remedies.h"
#include "cli/settings.h"

namespace amdahl::cli {
namespace {

// `--data "$FILE"` with an unset variable must not quietly mean no file.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : used_command(app).get_options())
    for (const std::string& value : option->results())
      if (value.empty())
        throw Error(Cause::usage, fmt::format("{} is empty", option->get_name()),
                    option->get_positional() ? "a path" : "a value, or leave the option out");
}

// Adds --color and --config to the program and to every command, so that their position is free, and puts the options
// that every command has into one group.
void add_common(CLI::App& app, std::string& color, std::string& config) {
  app.add_option("--color", color, "Colour of verdicts, findings and errors: auto (on terminals), always or never")
      ->capture_default_str();
  offer(&app, "--color", {"auto", "always", "never"});
  app.add_option("--config", config, "TOML file of options: keys are options, tables commands; also AMDAHL_CONFIG");
  offer_files(&app, {"--config"});
  for (CLI::Option* option : app.get_options())
    for (const char* name : {"help", "help-all", "version", "json", "quiet", "color", "config"})
      if (option->check_lname(name)) option->group("Common");
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) add_common(*sub, color, config);
}

int run_parsed(const CLI::App& app, const std::vector<Command>& commands, const std::string& command_line) {
  for (const Command& command : commands)
    if (command.app->parsed()) {
      const Overwriting overwriting(*command.app);
      return command.run(command_line);
    }
  fmt::print("{}", app.help());
  return 0;
}

}  // namespace

std::vector<Command> define_commands(CLI::App& app) {
  std::vector<Command> commands;
  for (const auto define :
       {define_study, define_train, define_plan, define_calibrate, define_compare, define_bench, define_run,
        define_report, define_info, define_doctor, define_links, define_collectives, define_all})
    commands.push_back(define(app));
  for (Command& command : define_sensor_commands(app)) commands.push_back(std::move(command));
  return commands;
}

namespace {

/// `amdahl help study` as `amdahl study --help`, `amdahl version` as `amdahl --version`; `amdahl run` with "--" before
/// its script, whose options are its own.
std::vector<std::string> usual_words(std::vector<std::string> words) {
  if (words.size() > 2 && words[1] == "run") {
    const auto script = std::find_if(words.begin() + 2, words.end(), [](const std::string& word) {
      return word == "--" || word == "-m" || word.ends_with(".py");
    });
    if (script != words.end() && *script != "--") words.insert(script, "--");
  }
  if (words.size() < 2 || (words[1] != "help" && words[1] != "version")) return words;
  words.push_back("--" + words[1]);
  words.erase(words.begin() + 1);
  return words;
}

/// As a shell reads it back.
std::string shell_word(const std::string& word) {
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) != 0 || std::strchr("_@%+=:,./-", c); };
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

struct Program {
  CLI::App app{"amdahl: measures what more GPUs buy, and says so with statistics behind it"};
  bool print_version = false;
  std::string shell_files, color = "auto", config;  // config: with_settings has read it
  std::vector<Command> commands;

  Program() {
    app.require_subcommand(0, 1);
    use_help_format(app);
    app.footer(
        "amdahl help COMMAND: its most used options and examples; COMMAND --help-all: all. Commands with results have "
        "--json and -q, --quiet.");
    app.add_flag("-V,--version", print_version, "Version and commit");
    define_shell_files(app, shell_files);
    commands = define_commands(app);
    name_fields(command_tree(app));
    add_common(app, color, config);
    read_numbers(app);
  }

  int run(const std::vector<std::string>& words) {
    std::vector<const char*> arguments;
    for (const std::string& word : words) arguments.push_back(word.c_str());
    try {
      app.parse(static_cast<int>(arguments.size()), arguments.data());
    } catch (const CLI::Success& success) {
      return app.exit(success);
    } catch (const CLI::ExtrasError&) {
      throw unknown_word(app, words);
    } catch (const CLI::ParseError& error) {
      throw Error(Cause::usage, error.what(), "--help, for its options");
    }
    name_fields_of(command_words(used_command(app)));
    refuse_empty_values(app);
    require_one_of("--color", color, {"auto", "always", "never"});
    choose_color(color);
    if (print_version) {
      fmt::print("amdahl {} ({})\n", version(), build_commit());
      return 0;
    }
    if (!shell_files.empty()) return write_shell_files(app, shell_files);
    std::string command_line = "amdahl";
    for (size_t i = 1; i < words.size(); ++i) command_line += " " + shell_word(words[i]);
    return run_parsed(app, commands, command_line);
  }
};

}  // namespace

int parse_and_run(int argc, char** argv) {
  Program program;
  const Settings settings =
      with_settings(usual_words({argv, argv + argc}), command_tree(program.app), process_environment());
  try {
    return program.run(settings.words);
  } catch (const Error& error) {
    const Error named = with_command(error, program.app, settings.words);
    if (error.cause() != Cause::usage || settings.sources.empty()) throw named;
    throw Error(Cause::usage, fmt::format("{} ({})", named.what(), settings.sources), named.remedy());
  }
}

}  // namespace amdahl::cli
