// Starts threads; limits of processes or memory become errors with a remedy.
#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "amdahl/error.h"

namespace amdahl {

/// Error{environment_missing}, which names the limit to raise, when the system refuses a thread. `who`: start of the
/// message, "the worker of stream 'compute'".
template <class Work>
std::thread start_thread(const std::string& who, Work&& work) {
  try {
    return std::thread(std::forward<Work>(work));
  } catch (const std::system_error& error) {
    throw Error(Cause::environment_missing, who + " got no thread: " + error.code().message(),
                "a higher limit of processes (ulimit -u, pids.max of the control group) or of memory (ulimit -v), or "
                "fewer devices");
  }
}

}  // namespace amdahl
