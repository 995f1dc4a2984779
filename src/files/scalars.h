// Numbers of binary files by kind, size and byte order, each read as a double.
#pragma once

#include <cstddef>
#include <string_view>

namespace amdahl {

enum class ScalarKind { floating, whole, natural };

/// Reads the number at `at`, which need not be aligned. Integers beyond 2^53 are rounded.
using ReadScalar = double (*)(const char* at);

/// The reader of a type; null when it does not exist: floating has 2, 4 and 8 bytes, whole (signed) and natural
/// (unsigned) 1, 2, 4 and 8.
ReadScalar find_scalar(ScalarKind kind, size_t bytes, bool big_endian);

/// Computes a * b for sizes read from a file; false when the product exceeds the address space.
bool multiply_sizes(size_t a, size_t b, size_t& product);

}  // namespace amdahl
