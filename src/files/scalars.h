// Numbers as binary files have them: kind, size and byte order, read one by one as double.
#pragma once

#include <cstddef>
#include <string_view>

namespace amdahl {

enum class ScalarKind { floating, whole, natural };

/// Reads the number at an address of any alignment. Whole numbers beyond 2^53 are rounded.
using ReadScalar = double (*)(const char* at);

/// Null when there is no such type: floating has 2, 4 and 8 bytes, whole and natural 1, 2, 4 and 8.
ReadScalar find_scalar(ScalarKind kind, size_t bytes, bool big_endian);

/// a * b of sizes that a file claims; false when it exceeds what memory can be addressed with.
bool multiply_sizes(size_t a, size_t b, size_t& product);

}  // namespace amdahl
