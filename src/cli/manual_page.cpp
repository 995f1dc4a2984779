// Manual pages in roff's man macros: the text of --help, and sections common to all commands.
#include <fmt/format.h>

#include "amdahl/error.h"
#include "cli/command_tree.h"

namespace amdahl::cli {
namespace {

/// Escapes text: a line must not begin with a control character, and a minus must be copyable.
std::string roff(const std::string& text) {
  std::string result;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
    line_start = c == '\n';
  }
  return result;
}

std::string bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

void append_option(const OptionNode& option, std::string& page) {
  page += ".TP\n";
  if (option.positional) {
    page += italic(option.names.front()) + (option.repeated ? " ..." : "");
  } else {
    for (size_t i = 0; i < option.names.size(); ++i) page += (i > 0 ? ", " : "") + bold(option.names[i]);
    if (!option.is_flag())
      page += option.optional_value ? "[=" + italic(option.value) + "]" : " " + italic(option.value);
  }
  page += "\n" + (option.description.empty() ? std::string("No description.") : roff(option.description)) + "\n";
  if (!option.offer.choices.empty())
    page += fmt::format(".br\n{}: {}\n",
                        option.offer.several ? "Any of"
                        : option.offer.files ? "Names"
                                             : "One of",
                        roff(fmt::format("{}", fmt::join(option.offer.choices, ", "))));
  if (!option.default_value.empty()) page += fmt::format(".br\nDefault: {}\n", roff(option.default_value));
}

std::string synopsis(const CommandNode& command) {
  std::string line = bold(command.name());
  for (const OptionNode& option : command.options)
    if (!option.positional && option.required) line += " " + bold(option.names.back()) + " " + italic(option.value);
  line += " [" + italic("options") + "]";
  if (!command.commands.empty()) line += " [" + italic("command") + "]";
  for (const OptionNode& option : command.options)
    if (option.positional)
      line += (option.required ? " " : " [") + italic(option.names.front()) + (option.repeated ? " ..." : "") +
              (option.required ? "" : "]");
  return line;
}

/// "examples:" and indented lines are verbatim; the rest is text.
void append_footer(const std::string& footer, std::string& page) {
  if (footer.empty()) return;
  std::string examples, text;
  for (size_t begin = 0; begin < footer.size();) {
    const size_t end = std::min(footer.find('\n', begin), footer.size());
    const std::string line = footer.substr(begin, end - begin);
    if (line.starts_with("  "))
      examples += roff(line.substr(2)) + "\n";
    else if (line != "example:" && line != "examples:")
      text += roff(line) + "\n";
    begin = end + 1;
  }
  if (!text.empty()) page += ".SH NOTES\n" + text;
  if (!examples.empty()) page += ".SH EXAMPLES\n.nf\n" + examples + ".fi\n";
}

struct ExitCode {
  int code;
  const char* meaning;
};
constexpr ExitCode kExitCodes[] = {{0, "Success."},
                                   {1, "A threshold, a regression gate or a verification failed."},
                                   {2, "A wrong option or value."},
                                   {3, "Hardware or a library that was asked for is missing."},
                                   {4, "A rank died, or ranks disagree."},
                                   {5, "Data or a run folder that cannot be read."},
                                   {6, "A wait was given up at its deadline."},
                                   {7, "The disk is full."},
                                   {77, "Waived: there was nothing to measure, and the reason is printed."},
                                   {130, "Interrupted by the user."}};

struct Variable {
  const char* name;
  const char* meaning;
};
constexpr Variable kVariables[] = {
    {"NO_COLOR", "When set and not empty, no colour."},
    {"TERM", "When \"dumb\", no colour, and progress as lines."},
    {"AMDAHL_OPTION",
     "Value of any option that the command line lacks: AMDAHL_BATCH_SIZES=64,128; of a flag true or false."},
    {"AMDAHL_CONFIG", "As --config FILE."},
    {"AMDAHL_CHART_PYTHON", "Python interpreter that draws the pictures of Markdown reports."},
    {"TMPDIR", "Folder for files of the time of a run."},
    {"RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT", "Of torchrun: this process is one of several."},
    {"SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID", "Of srun."},
    {"OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK", "Of Open MPI's mpirun."},
    {"NCCL_*", "Read by NCCL, and recorded with every measurement."}};

void append_program_sections(std::string& page) {
  page += ".SH EXIT STATUS\n";
  for (const ExitCode& row : kExitCodes) page += fmt::format(".TP\n.B {}\n{}\n", row.code, roff(row.meaning));
  page += ".SH ENVIRONMENT\n";
  for (const Variable& row : kVariables) page += fmt::format(".TP\n{}\n{}\n", bold(row.name), roff(row.meaning));
}

void append_see_also(const CommandNode& command, const CommandNode& root, std::string& page) {
  std::vector<std::string> pages;
  for (const CommandNode* other : all_commands(root))
    if (other->words != command.words) pages.push_back(bold(other->name("-")) + "(1)");
  page += fmt::format(".SH SEE ALSO\n{}\n", fmt::join(pages, ",\n"));
}

}  // namespace

std::string manual_page(const CommandNode& command, const CommandNode& root, const std::string& version) {
  std::string title = command.name("-");
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const std::string what = command.description.substr(command.description.starts_with("amdahl: ") ? 8 : 0);
  std::string page = fmt::format(".TH {} 1 \"\" \"amdahl {}\" \"User Commands\"\n", roff(title), roff(version));
  page +=
      fmt::format(".SH NAME\n{} \\- {}\n.SH SYNOPSIS\n{}\n", roff(command.name("-")), roff(what), synopsis(command));
  if (!command.commands.empty()) {
    page += ".SH COMMANDS\n";
    for (const CommandNode& below : command.commands)
      page += fmt::format(".TP\n{}\n{}\n", bold(below.name()), roff(below.description));
  }
  page += ".SH OPTIONS\n";
  for (const OptionNode& option : command.options) append_option(option, page);
  if (!command.details.empty()) page += ".SH PARTS\n.nf\n" + roff(command.details) + ".fi\n";
  append_footer(command.footer, page);
  if (command.words.size() == 1) append_program_sections(page);
  append_see_also(command, root, page);
  return page;
}

}  // namespace amdahl::cli
