#include "files/text_encoding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "amdahl/error.h"

namespace amdahl {

std::string_view wide_encoding(std::string_view bytes) {
  using namespace std::string_view_literals;
  if (bytes.starts_with("\0\0\xFE\xFF"sv) || bytes.starts_with("\xFF\xFE\0\0"sv)) return "UTF-32";
  if (bytes.starts_with("\xFE\xFF"sv) || bytes.starts_with("\xFF\xFE"sv)) return "UTF-16";
  // Without a mark: the high bytes of letters, digits and blanks are zero, at the same place of each unit.
  constexpr size_t kLooked = 4096, kLeast = 8;
  const std::string_view begin = bytes.substr(0, kLooked);
  if (begin.size() < kLeast || bytes.size() % 2 != 0) return {};
  std::array<size_t, 4> zeros{};
  for (size_t i = 0; i < begin.size(); ++i) zeros[i % 4] += begin[i] == '\0';
  const size_t units = begin.size() / 4;
  const auto mostly = [&](size_t place) { return 2 * zeros[place] > units; };
  const auto rarely = [&](size_t place) { return 20 * zeros[place] <= units; };
  for (const size_t low : {size_t{0}, size_t{3}})
    if (bytes.size() % 4 == 0 && rarely(low) && mostly(1) && mostly(2) && mostly(low == 0 ? 3 : 0)) return "UTF-32";
  for (const size_t low : {size_t{0}, size_t{1}})
    if (rarely(low) && rarely(low + 2) && mostly(1 - low) && mostly(3 - low)) return "UTF-16";
  return {};
}

void require_text(std::string_view bytes, const std::string& path) {
  if (const std::string_view encoding = wide_encoding(bytes); !encoding.empty())
    throw Error(Cause::data_corrupt, fmt::format("{}, line 1: the text is {}", path, encoding),
                fmt::format("convert it: iconv -f {} -t UTF-8", encoding));
  const size_t nul = bytes.find('\0');
  if (nul == std::string_view::npos) return;
  const auto line = 1 + std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(nul), '\n');
  throw Error(Cause::data_corrupt, fmt::format("{}, line {}: a NUL byte; this is not a text file", path, line),
              "UTF-8 text; of another encoding: iconv -f UTF-16 -t UTF-8");
}

}  // namespace amdahl
