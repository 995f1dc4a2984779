// Text of a run's failure.
#pragma once

#include <string>

#include "spec/failure.h"

namespace amdahl {

/// "the run ended early: rank-died: rank 2 on node7 was lost (signal 9)".
std::string failure_line(const Failure& failure);
/// The line, the remedy, and a table with the last call of every rank. Plain text.
std::string failure_text(const Failure& failure);

}  // namespace amdahl
