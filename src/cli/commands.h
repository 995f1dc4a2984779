// Declarations that the files of the program share and that need no parser.
#pragma once

#include <string>
#include <vector>

#include "amdahl/fabric.h"

namespace amdahl::cli {

/// Output of a command: results on stdout, progress and warnings on stderr.
struct OutputOptions {
  bool json = false;
  bool quiet = false;
  std::string html;  // page to write; empty: none
};

/// Command-line arguments that make this program run the sweep.
std::vector<std::string> collectives_arguments(const CollectivesConfig& sweep);

/// Parses the command line and runs its command. Parse errors are Error{usage}.
int parse_and_run(int argc, char** argv);

/// Installs handlers of SIGINT and SIGTERM. Until a verb has called `signalled`, a signal ends the program at once;
/// afterwards, at the verb's next safe point, or after 8 s in any case. A second signal ends it at once.
void watch_signals();
/// Sets the remedy in the message of an interrupted command. A string literal: the pointer is kept.
void set_interrupted_remedy(const char* remedy);
bool signalled();
/// 130 or 143 after a signal, else 0.
int signal_exit_code();

}  // namespace amdahl::cli
