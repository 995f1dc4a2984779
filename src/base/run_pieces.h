// Work in independent pieces, by all processors of the machine.
#pragma once

#include <cstddef>
#include <functional>

namespace amdahl {

/// Calls piece(i) once for each i in [0, count), by at most 32 threads, one of them the caller's, in any order. Returns
/// when all calls have returned. The first exception of any call is rethrown, and pieces that have not begun are left
/// out. Any number of threads may call it at once.
void run_pieces(size_t count, const std::function<void(size_t)>& piece);

}  // namespace amdahl
