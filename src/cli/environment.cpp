#include "cli/environment.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

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

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (words.empty())
    throw Error(Cause::environment_missing, "/proc/self/cmdline does not tell how this program was started",
                "a mounted /proc");
  return {words.begin() + 1, words.end()};
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
