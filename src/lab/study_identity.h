// What makes two invocations one study.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "amdahl/amdahl.h"
#include "measure/study_runner.h"
#include "train/dataset.h"

namespace amdahl {

/// Name -> value of everything that shapes what a study measures, except how many runs: what must be the same for
/// --resume. `data` as it was loaded, before it is standardised.
std::map<std::string, std::string> study_identity(const StudyConfig& config, const StudySettings& settings,
                                                  const Dataset& data);

/// FNV-1a over features and targets, in hexadecimal: tells two versions of a file apart.
std::string content_hash(const Dataset& data);

}  // namespace amdahl
