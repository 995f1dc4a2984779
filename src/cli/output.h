// Output to the user's terminal.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "amdahl/machine.h"
#include "cli/commands.h"

namespace amdahl::cli {

/// Prints text verbatim. Write errors on stderr are ignored, so that a run continues without its progress output; on
/// other streams they throw std::system_error.
void put(std::FILE* to, std::string_view text);

/// Prints a line of progress on stderr, cut to the width of a terminal. On a terminal the next text takes its place.
/// Nothing after the first text on stdout. For several threads, as put.
void put_progress(const std::string& line, bool is_terminal);

/// Prints lines that may contain records, file names and user text: control bytes are escaped, keywords coloured if
/// `has_color`, and lines broken that are wider than the terminal.
void show(std::FILE* to, std::string_view lines);

/// Prints data for other programs to stdout, verbatim; to a terminal as `show` does.
void show_data(std::string_view text);

/// Columns of the terminal that a stream is; 0 where it is a file or a pipe, whose lines may be of any length.
int terminal_columns(std::FILE* of = stdout);

/// The text of a result, in the width of the terminal where the result's text has a width.
template <class Outcome>
std::string text_of(const Outcome& outcome) {
  if constexpr (requires { to_text(outcome, 0); })
    return to_text(outcome, terminal_columns());
  else
    return to_text(outcome);
}

/// Prints a result: its JSON, or its text.
template <class Outcome>
void show_outcome(const Outcome& outcome, const OutputOptions& output) {
  if (output.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, text_of(outcome));
}

/// Prints "run: FOLDER" beside the result; nothing without a folder.
void show_place(const char* what, const std::string& path, const OutputOptions& output);

/// Prints "run: FOLDER" beside the result and writes the page of that run, if --html asks for it.
void show_run(const std::string& folder, const OutputOptions& output);
/// The page alone.
void write_page(const std::string& folder, const OutputOptions& output);

/// Prints a result, the name of its report, and the page of that run, if --html asks for it.
template <class Outcome>
void show_reported(const Outcome& outcome, const OutputOptions& output) {
  if (output.json)
    show_data(to_json(outcome));
  else
    show(stdout, text_of(outcome));
  show_place("report", outcome.report_path, output);
  write_page(std::filesystem::path(outcome.report_path).parent_path(), output);
}

/// Prints the name of a written file to stdout, unless that file is stdout.
void show_written(const std::string& file);

/// Writes a machine file and reports which quarantined pairs of the previous file are kept.
void save_measured(const std::string& file, const MachineSpec& machine);

}  // namespace amdahl::cli
