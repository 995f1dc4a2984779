// A checkpoint: everything that a training needs to go on as if it had not ended, in one safetensors file.
//
// Tensors: the weights by name and what layers keep besides them (running statistics), the optimizer's state as
// "adam.m/layers.0.weight", and "checkpoint.digest", the XXH3 of the header. The metadata has step, epoch, steps of the
// epoch, its loss so far, the training's identity, and the XXH3 of each tensor: a file of which any bit differs is
// refused.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/tensor.h"
#include "files/whole_file.h"

namespace amdahl {

/// Where a training stands between two steps.
struct TrainingPoint {
  int64_t step = 0;                  // finished optimizer steps
  int64_t epoch = 1;                 // of the next step, from 1
  int64_t epoch_step = 0;            // finished steps of that epoch: the position in its row order
  std::vector<double> epoch_losses;  // by rank: its part of the epoch's loss so far
};

struct Checkpoint {
  TrainingPoint point;
  std::map<std::string, std::string> identity;  // model, data, optimizer, seed, ...: what a training must share with it
  std::vector<NamedArray> weights;              // and what layers keep besides them
  std::vector<NamedArray> state;                // of the optimizer
};

/// Pieces of a checkpoint file, for write_atomic; they refer to `checkpoint` and to `storage`.
std::vector<std::string_view> checkpoint_pieces(const Checkpoint& checkpoint, std::vector<std::string>& storage);
/// Parses a file. Error{data_corrupt} that names `origin` and the reason: not complete, a changed header, a tensor
/// whose digest differs, no checkpoint. Error{version_refused}.
Checkpoint parse_checkpoint(std::string_view bytes, const std::string& origin);

/// TrainingPoint as text and back, for other processes.
std::string point_text(const TrainingPoint& point);
TrainingPoint point_from_text(const std::string& text);

/// The folder of one training's checkpoints, step-000000120.safetensors: the last two are kept. Only regular files
/// count.
class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path path) : path_(std::move(path)) {}

  /// Keeps other processes from writing into the folder, if it exists, until this object or the process ends; save does
  /// it by itself. Error{usage} when another training holds it.
  void lock();

  /// Whether it holds a checkpoint, damaged or not.
  bool has_any() const { return !newest_first().empty(); }
  /// Locks the folder, which it creates, writes the checkpoint under a temporary name, syncs and renames it, then
  /// removes all but it and the one before. Errors of write_atomic.
  void save(const Checkpoint& checkpoint);
  /// Reads the newest checkpoint that is intact; `warn` is told of each one that is not. Empty when there is none at
  /// all. Error{data_corrupt} when every one is damaged.
  struct Loaded {
    std::filesystem::path file;
    Checkpoint checkpoint;
  };
  std::optional<Loaded> load(const std::function<void(const std::string&)>& warn) const;
  /// Removes what a writer left that was killed: of the checkpoints up to `step` all but the last two, and temporary
  /// files. Files that cannot be removed stay, without an error.
  void remove_leftovers(int64_t step) const;

 private:
  struct Entry {
    int64_t step;
    std::filesystem::path file;
  };
  std::vector<Entry> newest_first() const;

  std::filesystem::path path_;
  FileDescriptor lock_;
};

/// Throws Error{usage} that lists the differences between the identity of a checkpoint and that of a training.
void require_same_training(const std::string& file, const std::map<std::string, std::string>& saved,
                           const std::map<std::string, std::string>& now);

}  // namespace amdahl
