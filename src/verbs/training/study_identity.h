// Identity of a study: what must be equal for two invocations to be the same study.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "amdahl/study.h"
#include "measure/study/runner.h"
#include "train/dataset.h"

namespace amdahl {

/// Name -> value of everything that affects what a study measures, except the number of runs; `resume` requires it to
/// be equal. `data`: as loaded, before standardisation.
std::map<std::string, std::string> study_identity(const StudyConfig& config, const StudySettings& settings,
                                                  const Dataset& data);

/// Adds host, devices and build: samples of different hosts, devices or builds are not one study.
void add_origin(std::map<std::string, std::string>& identity, const Provenance& provenance);

/// The part of the identity that describes the model, its data and the training options.
std::map<std::string, std::string> training_identity(const EngineConfig& engine, const TrainingConfig& training,
                                                     const ModelSpec& model, const Dataset& data);

/// "synthetic", or the name of the CSV file.
std::string data_name(const DataConfig& data);

}  // namespace amdahl
