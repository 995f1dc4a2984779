// The process environment as a map; the library itself reads no environment variables.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace amdahl::cli {

std::map<std::string, std::string> process_environment();

/// Sets variables, replacing existing ones. Call it before other threads start: the C library reads the environment
/// without a lock.
void set_environment(const std::map<std::string, std::string>& variables);

/// Arguments of this process without the program name. Error{environment_missing} without /proc.
std::vector<std::string> own_arguments();

/// Path of the running program. Error{environment_missing} without /proc.
std::string own_program();

}  // namespace amdahl::cli
