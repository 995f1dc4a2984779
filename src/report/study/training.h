// The report of one training run, from its epoch records only.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"

namespace amdahl {

/// "medium (54,403 parameters), global batch 64, single on 1 GPU": the model, its batch, strategy and devices.
std::string training_subject(const Record& record);
/// One line: what was trained, on what, and the result. `records` must not be empty.
std::string training_text(const std::vector<Record>& records);
/// Table of the epochs with loss, accuracy and throughput.
std::string training_markdown(const std::vector<Record>& records);

}  // namespace amdahl
