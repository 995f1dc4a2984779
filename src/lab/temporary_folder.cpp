#include "lab/temporary_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "amdahl/error.h"

namespace amdahl {

TemporaryFolder::TemporaryFolder(const std::map<std::string, std::string>& environment) {
  const auto set = environment.find("TMPDIR");
  std::string pattern = (set == environment.end() || set->second.empty() ? "/tmp" : set->second) + "/amdahl-XXXXXX";
  if (!mkdtemp(pattern.data()))
    throw Error(Cause::usage, fmt::format("no folder can be made as {}: {}", pattern, std::strerror(errno)),
                "TMPDIR=a folder that can be written");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace amdahl
