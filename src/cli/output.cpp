#include "cli/output.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/units.h"

namespace amdahl::cli {

void show(std::FILE* to, std::string_view lines) {
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = std::min(lines.find('\n', begin), lines.size());
    fmt::print(to, "{}{}", printable(lines.substr(begin, end - begin)), end < lines.size() ? "\n" : "");
    begin = end + 1;
  }
}

}  // namespace amdahl::cli
