// The complete command line: selects the command, and reports unknown words.
#include <cstdio>
#include <optional>

#include "cli/color.h"
#include "cli/command_tree.h"
#include "cli/field_options.h"
#include "cli/help_format.h"
#include "cli/option_values.h"

namespace amdahl::cli {
namespace {

// The command that was named, `voxelize` of `amdahl sensor voxelize`; without one, the program itself.
const CLI::App& used_command(const CLI::App& app) {
  const std::vector<CLI::App*> used = app.get_subcommands();
  return used.empty() ? app : used_command(*used.front());
}

/// "sensor voxelize"; empty for the program.
std::string command_words(const CLI::App& command) {
  if (command.get_parent() == nullptr) return {};
  const std::string above = command_words(*command.get_parent());
  return above + (above.empty() ? "" : " ") + command.get_name();
}

std::string full_name(const CLI::App& command) {
  return command.get_parent() == nullptr ? "amdahl" : "amdahl " + command_words(command);
}

/// `--batch-sizes 32 64`: a list separated by blanks, of which the parser takes only the first value and rejects the
/// others.
std::optional<Error> spaced_list(const CLI::App& command, const std::vector<std::string>& words,
                                 const std::string& unknown) {
  for (size_t i = 2; i < words.size(); ++i) {
    if (words[i] != unknown || !words[i - 2].starts_with('-') || words[i - 1].starts_with('-')) continue;
    for (const CLI::Option* option : command.get_options()) {
      if (!option->check_name(words[i - 2]) || !offer_of(const_cast<CLI::Option&>(*option)).several) continue;
      std::string list;
      for (size_t k = i - 1; k < words.size() && !words[k].starts_with('-'); ++k)
        for (const std::string& item : split_list(words[k]))
          if (!item.empty()) list += (list.empty() ? "" : ",") + item;
      return Error(Cause::usage, fmt::format("{}: the values of a list are joined with commas", words[i - 2]),
                   fmt::format("{} {}", words[i - 2], list));
    }
  }
  return std::nullopt;
}

// The error for an unknown word, with the nearest existing one.
Error unknown_word(const CLI::App& app, const std::vector<std::string>& words) {
  std::string word = app.remaining(true).front();
  if (const auto error = spaced_list(used_command(app), words, word)) return *error;
  word = word.substr(0, word.find('='));
  const CLI::App& command = used_command(app);
  const std::string called = full_name(command);
  std::vector<std::string> known;
  if (!word.starts_with('-') && !command.get_subcommands({}).empty()) {
    for (const CLI::App* sub : command.get_subcommands({})) known.push_back(sub->get_name());
    return Error(Cause::usage, fmt::format("unknown command '{}'", word), choices_hint(word, known));
  }
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  const std::string near = word.starts_with('-') ? nearest_name(word, known) : "";
  return Error(Cause::usage, fmt::format("{} does not know '{}'", called, word),
               fmt::format("{}{} --help", near.empty() ? "" : near + "? or ", called));
}

// `--data "$FILE"` with an unset variable must not quietly mean no file.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : used_command(app).get_options())
    for (const std::string& value : option->results())
      if (value.empty())
        throw Error(Cause::usage, fmt::format("{} is empty", option->get_name()),
                    option->get_positional() ? "a path" : "a value, or leave the option out");
}

// Adds --color to the program and to every command, so that its position is free, and puts the options that every
// command has into one group.
void add_common(CLI::App& app, std::string& color) {
  app.add_option("--color", color, "Colour of verdicts, findings and errors: auto (on terminals), always or never")
      ->capture_default_str();
  offer(&app, "--color", {"auto", "always", "never"});
  for (CLI::Option* option : app.get_options())
    for (const char* name : {"help", "help-all", "version", "json", "quiet", "color"})
      if (option->check_lname(name)) option->group("Common");
  for (CLI::App* sub : app.get_subcommands([](CLI::App*) { return true; })) add_common(*sub, color);
}

int run_parsed(const CLI::App& app, const std::vector<Command>& commands, const std::string& command_line) {
  for (const Command& command : commands)
    if (command.app->parsed()) return command.run(command_line);
  fmt::print("{}", app.help());
  return 0;
}

}  // namespace

std::vector<Command> define_commands(CLI::App& app) {
  std::vector<Command> commands;
  for (const auto define : {define_study, define_train, define_plan, define_calibrate, define_compare, define_report,
                            define_info, define_doctor, define_links, define_collectives, define_all})
    commands.push_back(define(app));
  for (Command& command : define_sensor_commands(app)) commands.push_back(std::move(command));
  return commands;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app{"amdahl: measures what more GPUs buy, and says so with statistics behind it"};
  app.require_subcommand(0, 1);
  use_help_format(app);
  app.footer("Every command has --help and --help-all, and those with results --json and -q, --quiet.");
  bool print_version = false;
  std::string shell_files;
  app.add_flag("--version", print_version, "Version and commit");
  define_shell_files(app, shell_files);
  const std::vector<Command> commands = define_commands(app);
  name_fields(command_tree(app));
  std::string color = "auto";
  add_common(app, color);
  check_fractions(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ExtrasError&) {
    throw unknown_word(app, {argv, argv + argc});
  } catch (const CLI::ParseError& error) {
    throw Error(Cause::usage, error.what(), "amdahl --help, or amdahl COMMAND --help");
  }
  name_fields_of(command_words(used_command(app)));
  refuse_empty_values(app);
  require_one_of("--color", color, {"auto", "always", "never"});
  choose_color(color);
  std::string command_line;
  for (int i = 0; i < argc; ++i) command_line += (i ? " " : "") + std::string(i ? argv[i] : "amdahl");
  if (print_version) {
    fmt::print("amdahl {} ({})\n", version(), build_commit());
    return 0;
  }
  if (!shell_files.empty()) return write_shell_files(app, shell_files);
  return run_parsed(app, commands, command_line);
}

}  // namespace amdahl::cli
