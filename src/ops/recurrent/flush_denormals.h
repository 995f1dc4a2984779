// Gradients that vanish over the steps of a sequence: as denormal numbers each of their operations takes a hundred
// times longer, and none of them changes a parameter.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace amdahl {

/// While it lives, results below 2^-126 of this thread's arithmetic in f32 are 0, and so are such operands; where the
/// processor cannot (no SSE), nothing changes.
class FlushDenormals {
 public:
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;
#if defined(__SSE__)
  FlushDenormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushResults | kFlushOperands); }
  ~FlushDenormals() { _mm_setcsr(before_); }

 private:
  static constexpr unsigned kFlushResults = 1u << 15, kFlushOperands = 1u << 6;
  unsigned before_;
#else
  FlushDenormals() = default;
#endif
};

}  // namespace amdahl
