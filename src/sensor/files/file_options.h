// Options that say how a cloud or a table of samples is to be read.
#pragma once

#include <string>
#include <vector>

#include "amdahl/sensor.h"

namespace amdahl {

/// Error{usage} for an option that has no effect on any file of these names.
void refuse_options_without_effect(const std::vector<std::string>& paths, const SensorFileOptions& options);

/// The options that have an effect on a file of this name.
SensorFileOptions options_for(const std::string& path, const SensorFileOptions& options);

}  // namespace amdahl
