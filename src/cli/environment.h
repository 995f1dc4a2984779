// The process environment as a map; the library reads no variables itself.
#pragma once

#include <map>
#include <string>

namespace amdahl::cli {

std::map<std::string, std::string> process_environment();

}  // namespace amdahl::cli
