#include "amdahl/machine.h"

#include <array>

namespace amdahl {

std::string_view to_string(PathKind kind) {
  constexpr std::array<std::string_view, 8> kLetters{"X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS", "HOST"};
  return kLetters[static_cast<size_t>(kind)];
}

}  // namespace amdahl
