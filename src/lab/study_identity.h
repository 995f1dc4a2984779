// What makes two invocations one study.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "amdahl/amdahl.h"
#include "measure/study/runner.h"
#include "train/dataset.h"

namespace amdahl {

/// Name -> value of everything that shapes what a study measures, except how many runs: what must be the same for
/// `resume`. `data` as it was loaded, before it is standardised.
std::map<std::string, std::string> study_identity(const StudyConfig& config, const StudySettings& settings,
                                                  const Dataset& data);

/// Adds where and by which build it is measured: samples of two hosts, devices or builds are not one study.
void add_origin(std::map<std::string, std::string>& identity, const Provenance& provenance);

/// The part of it that is about the model, its data and how it is trained.
std::map<std::string, std::string> training_identity(const EngineConfig& engine, const TrainingConfig& training,
                                                     const ModelSpec& model, const Dataset& data);

/// "synthetic", or the name of the CSV file.
std::string data_name(const DataConfig& data);

}  // namespace amdahl
