// The report of one training run, from its epoch records alone.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// "medium (54,403 parameters), global batch 64, single on 1 GPU": of what and on what.
std::string training_subject(const Record& record);
/// One line: what was trained, on what, and how it ended. `records` holds at least one epoch.
std::string training_text(const std::vector<Record>& records);
/// Table of the epochs with loss, accuracy and throughput.
std::string training_markdown(const std::vector<Record>& records);

}  // namespace amdahl
