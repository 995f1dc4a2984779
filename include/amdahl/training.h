// DataConfig and TrainingConfig: what study and train train on, and how. Plain data.
//
// Example: windows of 96 rows of a CSV file, AdamW with a cosine schedule and clipped gradients.
//   amdahl::TrainingConfig training;
//   training.data.data_path = "load.csv", training.data.targets = {"demand"}, training.data.window = 96;
//   training.optimizer = "adamw", training.lr_schedule = "cosine", training.clip_norm = 1;
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/plan.h"
#include "amdahl/tensor.h"

namespace amdahl {

/// Training data: a file or arrays of the caller; the study's generator when neither is given, in the shape that the
/// model takes.
struct DataConfig {
  /// What the file holds follows from its name. FILE.bin: tokens, with a header of 256 int32 (20240520, 1, number of
  /// tokens for u16; 20240801, 7, number for u32) or without. FILE.txt: a text in UTF-8. FILE.npy: images of [rows,
  /// height, width, channels] as u8, which are divided by 255, or f32. Any other: CSV.
  std::string data_path;
  std::string labels_path;  // FILE.npy, classes of the images: [rows] of i32, i64 or u8, class numbers from 0
  /// CSV: consecutive rows per input, whose target is that of the last one. Tokens and text: tokens per row, each of
  /// which has the following one as its target. 0: as many as the model takes, one row for a model without steps.
  int64_t window = 0;
  int64_t stride = 0;               // rows or tokens from one window to the next; 0: 1 in a CSV file, else `window`
  std::string tokenizer = "bytes";  // of a text: bytes, or words between blanks, the most frequent first
  /// Tokenizer words: the most words, where the last one stands for all further ones. 0: as many as the model knows. A
  /// token beyond the model's vocabulary is an error.
  int64_t vocabulary = 0;
  std::vector<std::string> targets;         // columns of a CSV file
  std::vector<std::string> ignored;         // columns that are neither feature nor target
  std::string missing = "refuse";           // refuse, drop, mean
  std::vector<std::string> missing_values;  // CSV: further texts that mark a missing value
  char delimiter = 0;                       // 0: detected from the file
  std::string header = "auto";              // whether the first line of a CSV file names its columns: auto, yes, no
  bool regression = false;                  // true: an integer-valued target is a number, not a class
  std::string bin_type;                     // tokens without a header: u16, u32 or u64; empty: u16
  /// In host memory, copied before the first call of the Observer. `features`: [rows, width] f32. `labels`: [rows,
  /// outputs] f32 for regression, or [rows] i32 or i64 with class numbers that start at 0.
  ConstTensor features, labels;
};

/// Model, data, parallel strategy and optimizer.
struct TrainingConfig {
  std::string model = "medium";  // name of a preset, or path of a JSON file
  DataConfig data;
  std::string strategy = "ddp";
  PlanOptions plan;
  Mesh mesh{.dp = 0};  // dp 0: as many data-parallel ranks as there are devices; else the whole mesh, see use_plan
  std::string optimizer = "adam";      // adam, adamw, sgd
  double learning_rate = 1e-3;         // of a schedule: its largest value
  std::optional<double> weight_decay;  // adamw: of weights, not of biases and other vectors; absent: 0.01
  double clip_norm = 0;                // the gradient is scaled down to this norm (L2, over all parameters); 0: never
  /// constant; linear, cosine: to 0 at the end of the training, or of one run's warm-up and timed steps in a study.
  std::string lr_schedule = "constant";
  int64_t lr_warmup_steps = 0;  // steps in which the learning rate rises linearly to its full value
};

/// Takes mesh, strategy and fields of a plan.
inline void use_plan(TrainingConfig& training, const ParallelPlan& plan) {
  training.plan = plan;
  training.strategy = plan.strategy;
  training.mesh = plan.mesh;
}

}  // namespace amdahl
