// A study cell's key as the axes that its records have.
#pragma once

#include <map>
#include <string>

#include "amdahl/summary.h"

namespace amdahl {

std::map<std::string, AxisValue> axes_of(const CellKey& key);

}  // namespace amdahl
