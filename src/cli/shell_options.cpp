// Completion scripts and manual pages, written into the folders where shells and man look for them.
#include <filesystem>

#include "amdahl/report.h"
#include "cli/command_tree.h"
#include "cli/option_values.h"

namespace amdahl::cli {
namespace {

struct ShellFile {
  const char* file;
  std::string (*script)(const CommandNode& root);
};
constexpr ShellFile kShellFiles[] = {{"bash-completion/completions/amdahl", bash_completion},
                                     {"zsh/site-functions/_amdahl", zsh_completion},
                                     {"fish/vendor_completions.d/amdahl.fish", fish_completion}};

void save_in_folder(const std::string& folder, const std::string& file, const std::string& text) {
  const std::filesystem::path path = std::filesystem::path(folder) / file;
  std::error_code failed;  // ignored: save_text reports it, with the path
  std::filesystem::create_directories(path.parent_path(), failed);
  save_text(path.string(), text);
}

}  // namespace

void define_shell_files(CLI::App& app, std::string& folder) {
  app.add_option("--write-shell-files", folder, "Completion scripts and manual pages into this folder")->group("");
}

int write_shell_files(CLI::App& app, const std::string& folder) {
  const CommandNode root = command_tree(app);
  for (const ShellFile& one : kShellFiles) save_in_folder(folder, one.file, one.script(root));
  for (const CommandNode* command : all_commands(root))
    save_in_folder(folder, fmt::format("man/man1/{}.1", command->name("-")), manual_page(*command, root, version()));
  return 0;
}

}  // namespace amdahl::cli
