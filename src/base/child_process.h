// Programs started from this one: with an environment of their own, their output caught, ended at a deadline.
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
  std::map<std::string, std::string> environment;  // all of it
};

struct ChildResult {
  enum class End { exited, signalled, late };  // late: it was ended at the deadline
  End end = End::exited;
  int code = 0;     // exit code, or the signal's number
  std::string out;  // standard output
  std::string err;
};

/// A process of this program was ended by a signal.
class SignalledError : public Error {
 public:
  SignalledError(const std::string& message, int signal) : Error(Cause::rank_died, message), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

/// Starts all and returns once all have ended, in the order of `commands`. At the deadline, and once `stopped` says so,
/// those that still run are asked to end and two seconds later made to. When one ends badly the others get ten more
/// seconds: ranks of a job notice that a peer is gone. They get SIGTERM when this process dies.
/// Error{environment_missing} when a program cannot be started.
std::vector<ChildResult> run_children(const std::vector<ChildCommand>& commands, Deadline deadline,
                                      const std::function<bool()>& stopped);

}  // namespace amdahl
