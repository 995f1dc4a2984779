// Completion scripts and manual pages, generated from the options.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/command_tree.h"
#include "cli/option_values.h"

namespace amdahl::cli {
namespace {

struct Shell {
  const char* name;
  std::string (*script)(const CommandNode& root);
};
constexpr Shell kShells[] = {{"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};

int completion_command(CLI::App& app, const std::string& name) {
  std::vector<std::pair<std::string, const Shell*>> shells;
  for (const Shell& shell : kShells) shells.emplace_back(shell.name, &shell);
  fmt::print("{}", one_of<const Shell*>("shell", name, shells)->script(command_tree(app)));
  return 0;
}

Command define_completion(CLI::App& app) {
  auto shell = std::make_shared<std::string>();
  CLI::App* sub = app.add_subcommand("completion", "Completion script for a shell: bash, zsh or fish");
  sub->footer(
      "examples:\n  source <(amdahl completion bash)\n  amdahl completion zsh > ~/.zfunc/_amdahl\n"
      "  amdahl completion fish > ~/.config/fish/completions/amdahl.fish");
  sub->add_option("shell", *shell, "bash, zsh or fish")->required();
  offer(sub, "shell", {"bash", "zsh", "fish"});
  return {sub, [shell, &app](const std::string&) { return completion_command(app, *shell); }};
}

struct ManArgs {
  std::vector<std::string> words;
  std::string output_dir;
};

int man_command(CLI::App& app, const ManArgs& args) {
  const CommandNode root = command_tree(app);
  if (!args.output_dir.empty()) {
    std::error_code failed;  // ignored: save_text reports it, with the path
    std::filesystem::create_directories(args.output_dir, failed);
    for (const CommandNode* command : all_commands(root))
      save_text(fmt::format("{}/{}.1", args.output_dir, command->name("-")), manual_page(*command, root, version()));
    return 0;
  }
  const std::string asked = fmt::format("amdahl{}{}", args.words.empty() ? "" : " ", fmt::join(args.words, " "));
  std::vector<std::pair<std::string, const CommandNode*>> commands;
  for (const CommandNode* command : all_commands(root)) commands.emplace_back(command->name(), command);
  fmt::print("{}", manual_page(*one_of<const CommandNode*>("man", asked, commands), root, version()));
  return 0;
}

Command define_man(CLI::App& app) {
  auto args = std::make_shared<ManArgs>();
  CLI::App* sub = app.add_subcommand("man", "Manual page of the program or of a command, in roff");
  sub->footer("examples:\n  amdahl man study | man -l -\n  amdahl man sensor bench | man -l -");
  sub->add_option("command", args->words, "Command, for example study, or sensor bench (default: the program)");
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  offer(sub, "command", names);
  sub->add_option("--output-dir,-o", args->output_dir, "Write the pages of all commands into this folder");
  offer_files(sub, {"--output-dir"});
  return {sub, [args, &app](const std::string&) { return man_command(app, *args); }};
}

}  // namespace

std::vector<Command> define_shell_commands(CLI::App& app) { return {define_completion(app), define_man(app)}; }

}  // namespace amdahl::cli
