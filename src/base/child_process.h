// Child processes with their own environment, captured output, a deadline, and the time that they took.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "amdahl/error.h"
#include "base/deadline.h"

namespace amdahl {

struct ChildCommand {
  std::string program;                             // path
  std::vector<std::string> arguments;              // without the program's name
  std::map<std::string, std::string> environment;  // complete environment
  bool keeps_output = true;                        // false: standard output goes to /dev/null
};

struct ChildResult {
  enum class End { exited, signalled, late };  // late: ended at the deadline
  End end = End::exited;
  int code = 0;     // exit code, or signal number
  std::string out;  // standard output
  std::string err;
  double wall_us = 0;                 // from fork until this process learned of its end
  double user_us = 0, system_us = 0;  // processor time of it and of its children that it waited for
  /// Largest resident memory of one of them; at least this process's, of which fork makes a copy.
  int64_t peak_bytes = 0;
};

/// A process of this program was ended by a signal.
class SignalledError : public Error {
 public:
  SignalledError(const std::string& message, int signal) : Error(Cause::rank_died, message), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// The file of a program by its name, in PATH of `environment`; a name with a slash is the file. Empty: there is none.
std::string program_file(const std::string& name, const std::map<std::string, std::string>& environment);
/// The last line of a program's output that is not blank, safe for a terminal; "it said nothing" where there is none.
std::string last_line(const std::string& text);

/// Starts all programs and returns their results, in the order of `commands`, once all have ended. At the deadline, or
/// once `stopped` returns true, running programs get SIGTERM and two seconds later SIGKILL. When one fails, the others
/// have ten more seconds, in which ranks of a job detect that a peer is gone. Programs get SIGTERM when this process
/// dies. Error{environment_missing} when a program cannot be started.
std::vector<ChildResult> run_children(const std::vector<ChildCommand>& commands, Deadline deadline,
                                      const std::function<bool()>& stopped);

}  // namespace amdahl
