// Tables of one-sided operations over sizes, of who wins at which size, and of what fixed rules lose.
#pragma once

#include <string>
#include <vector>

#include "amdahl/onesided.h"

namespace amdahl {

std::string onesided_text(const std::vector<Record>& records, const std::vector<OneSidedChoice>& choices);

}  // namespace amdahl
