// The process environment as a map; the library reads no variables itself.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace amdahl::cli {

std::map<std::string, std::string> process_environment();

/// Over what is there. Before any other thread runs: the C library reads without a lock.
void set_environment(const std::map<std::string, std::string>& variables);

/// Its arguments, without its name. Error{environment_missing} without /proc.
std::vector<std::string> own_arguments();

/// Path of the running program. Error{environment_missing} without /proc.
std::string own_program();

}  // namespace amdahl::cli
