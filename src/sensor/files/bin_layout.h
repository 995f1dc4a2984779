// Whether headerless numbers look like rows of a layout.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace amdahl {

/// Why the bytes do not look like rows of `columns` floats, and the options that would read them; empty when they do or
/// when there are too few to tell.
struct LayoutDoubt {
  std::string what, remedy;
};
LayoutDoubt doubt_layout(std::string_view bytes, int64_t columns);

}  // namespace amdahl
