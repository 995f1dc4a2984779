#include "cli/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "amdahl/error.h"

namespace amdahl::cli {

std::map<std::string, std::string> process_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry && *entry; ++entry) {
    const std::string text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string::npos) variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

void set_environment(const std::map<std::string, std::string>& variables) {
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
}

std::string own_program() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    throw Error(Cause::environment_missing, "/proc/self/exe does not tell where this program is: " + error.message(),
                "a mounted /proc");
  return path.string();
}

}  // namespace amdahl::cli
