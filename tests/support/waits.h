// Timeout of tests for events that must happen.
#pragma once

#include "base/deadline.h"

namespace amdahl {

inline Deadline soon() { return Deadline::after_seconds(30); }

}  // namespace amdahl
