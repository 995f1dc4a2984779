// Options that study and train share: devices, model, data, plan.
#pragma once

#include <string>
#include <vector>

#include "cli/file_options.h"
#include "cli/option_values.h"

namespace amdahl::cli {

/// Raw text values of options that are converted after parsing.
struct TrainingTexts {
  std::string machine, gpus, speeds, targets, deterministic;
  std::string launch = "eager", math = "fp32", timeout = "60", data_options;
};

void add_engine_options(CLI::App* app, EngineConfig& engine, TrainingTexts& texts);
void add_training_options(CLI::App* app, TrainingConfig& training, TrainingTexts& texts);
inline constexpr const char* kEngineOptions =
    "--backend --gpus +--device-speeds --machine --launch --math +--deterministic +--comm +--seed +--timeout";
inline constexpr const char* kModelOptions =
    "--model --optimizer --learning-rate +--weight-decay +--clip-norm +--lr-schedule +--lr-warmup-steps";
inline constexpr const char* kDataOptions = "--data --target +--data-options";

/// Converts the texts. `plans`: those that --deterministic=any-devices is about, beside that of `training`.
void finish_training_options(const TrainingTexts& texts, const std::string& command_line, EngineConfig& engine,
                             TrainingConfig& training, std::vector<ParallelPlan>* plans = nullptr);

/// Whether a plan's text says its devices: "dp2.tp2,m4". One without, "zero1,m4", fits any number of them.
bool has_mesh(const std::string& plan);
/// The plan, on so many devices when it does not say them.
ParallelPlan plan_on(int64_t devices, const std::string& text);
/// Strategy and fields of a plan that names no devices, for as many as there are.
void use_options(TrainingConfig& training, const std::string& text);

}  // namespace amdahl::cli
