#include "verbs/training/training_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "train/named_weights.h"
#include "train/optimizer.h"

namespace amdahl {
namespace {

// Facts that decide about the meaning of a checkpoint's values. Others, like the number of devices or the learning
// rate, may change on the way.
constexpr const char* kSharedFacts[] = {"model",       "num_parameters", "layers", "data_hash",  "rows",
                                        "input_shape", "optimizer",      "seed",   "batch_size", "validation"};

/// The loss scale of fp16: scale, good steps, skipped steps.
constexpr const char* kLossScaleName = "fp16/loss_scale";

/// Error feedback of a data-parallel rank.
std::string feedback_prefix(size_t rank) { return fmt::format("feedback.{}/", rank); }

std::string state_prefix(const Hyper& hyper, int array) { return state_name(hyper, array) + "/"; }

}  // namespace

TrainingCheckpoints::TrainingCheckpoints(const TrainConfig& config, const ModelSpec& model, const Hyper& hyper,
                                         const std::map<std::string, std::string>& facts)
    : config_(config), model_(model), hyper_(hyper) {
  if (config.checkpoint_every < 0)
    throw Error(Cause::usage, fmt::format("`checkpoint_every` is {}", config.checkpoint_every),
                "a number of steps, or 0");
  if (config.checkpoint_every == 0 && !config.resume) {
    if (!config.checkpoint_dir.empty())
      throw Error(Cause::usage, "`checkpoint_dir` is given, and nothing writes or reads checkpoints",
                  "`checkpoint_every` or `resume`");
    return;
  }
  if (config.checkpoint_dir.empty() && config.output_dir.empty())
    throw Error(Cause::usage, "checkpoints without a folder", "`checkpoint_dir`, or an `output_dir`");
  folder_.emplace(config.checkpoint_dir.empty() ? std::filesystem::path(config.output_dir) / "checkpoints"
                                                : std::filesystem::path(config.checkpoint_dir));
  for (const char* fact : kSharedFacts)
    if (const auto found = facts.find(fact); found != facts.end()) identity_.insert(*found);
}

void TrainingCheckpoints::load(Fleet& fleet, TrainSettings& settings, Observer& observer) {
  if (!folder_) return;
  if (fleet.is_root() && config_.checkpoint_every > 0) folder_->lock();
  std::string point;
  if (fleet.is_root() && !config_.resume && folder_->has_any())
    throw Error(Cause::usage,
                fmt::format("{} already holds checkpoints",
                            config_.checkpoint_dir.empty() ? config_.output_dir : config_.checkpoint_dir),
                "`resume` to go on with that training, or another `checkpoint_dir`");
  if (fleet.is_root() && config_.resume) {
    const auto loaded = folder_->load([&observer](const std::string& line) { observer.warning(line); });
    if (loaded) {
      require_same_training(loaded->file.string(), loaded->checkpoint.identity, identity_);
      settings.state = state_of(loaded->checkpoint, loaded->file.string());
      point = point_text(loaded->checkpoint.point);
      observer.note(fmt::format("resumed from {}", loaded->file.string()));
    } else {
      observer.note("no checkpoint yet: the training begins at its first step");
    }
  }
  if (!config_.resume) return;
  point = fleet.agree(point);
  if (point.empty()) return;
  settings.start = point_from_text(point);
  if (settings.start.epoch > settings.epochs)
    throw Error(Cause::usage,
                fmt::format("the checkpoint is of epoch {}, and `epochs` is {}", settings.start.epoch, settings.epochs),
                "more epochs");
  if (fleet.is_root() && config_.checkpoint_every > 0)
    folder_->remove_leftovers(settings.start.step);  // it may end before its first checkpoint
}

TrainerState TrainingCheckpoints::state_of(const Checkpoint& checkpoint, const std::string& file) const {
  TrainerState state;
  state.step = static_cast<uint64_t>(checkpoint.point.step);
  state.parameters = place_weights(model_, checkpoint.weights, "", file);
  for (int i = 0; i < num_state_arrays(hyper_); ++i)
    state.optimizer.push_back(place_weights(model_, checkpoint.state, state_prefix(hyper_, i), file));
  const auto has_feedback = [&](size_t rank) {
    return std::any_of(checkpoint.state.begin(), checkpoint.state.end(),
                       [&](const NamedArray& array) { return array.name.starts_with(feedback_prefix(rank)); });
  };
  for (size_t rank = 0; has_feedback(rank); ++rank)
    state.feedback.push_back(place_weights(model_, checkpoint.state, feedback_prefix(rank), file));
  state.buffers = checkpoint.weights;  // those of other names are weights
  for (const NamedArray& array : checkpoint.state) {
    if (array.name != kLossScaleName || array.values.size() != 3) continue;
    state.loss_scale = LossScale{array.values[0], array.values[1], array.values[2], 0};
    state.step -= static_cast<uint64_t>(state.loss_scale->skipped_steps);
  }
  return state;
}

void TrainingCheckpoints::save(const TrainingPoint& point, const TrainerState& state) {
  Checkpoint checkpoint{point, identity_, name_weights(model_, state.parameters), {}};
  checkpoint.weights.insert(checkpoint.weights.end(), state.buffers.begin(), state.buffers.end());
  const auto add_state = [&](const std::string& prefix, const std::vector<float>& values) {
    for (NamedArray& array : name_weights(model_, values)) {
      array.name = prefix + array.name;
      checkpoint.state.push_back(std::move(array));
    }
  };
  for (size_t i = 0; i < state.optimizer.size(); ++i)
    add_state(state_prefix(hyper_, static_cast<int>(i)), state.optimizer[i]);
  for (size_t rank = 0; rank < state.feedback.size(); ++rank) add_state(feedback_prefix(rank), state.feedback[rank]);
  if (const auto& scale = state.loss_scale)
    checkpoint.state.push_back({kLossScaleName, {3}, {scale->scale, scale->good_steps, scale->skipped_steps}});
  folder_->save(checkpoint);
}

}  // namespace amdahl
