// What study and train train on, and how; the verb that trains. Plain data.
//
// Example: windows of 96 rows of a CSV file, AdamW with a cosine schedule and clipped gradients.
//   amdahl::TrainConfig config;
//   config.training.data.data_path = "load.csv", config.training.data.targets = {"demand"};
//   config.training.data.window = 96;
//   config.training.optimizer = "adamw", config.training.lr_schedule = "cosine", config.training.clip_norm = 1;
//   amdahl::Observer quiet;
//   std::printf("%g\n", amdahl::run_train(config, quiet).epochs.back().validation_loss);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "amdahl/plan.h"
#include "amdahl/record.h"
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
  int64_t end_token = -1;                   // tokens and text: see LayerSpec::end_token; -1: the model's
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

struct TrainConfig {
  EngineConfig engine;
  TrainingConfig training;
  int devices = 0;          // 0: one device, all ranks of a launched job, or those of `training.mesh`
  int64_t batch_size = 32;  // global
  int epochs = 20;
  double validation_fraction = 0.2;
  int check_every = 1000;  // steps between bitwise comparisons of the devices' weights; 0: after the last step only
  std::string output_dir;
  std::string weights;  // to begin with, in own names or Hugging Face's: FILE.safetensors, an index of several such
                        // files, or their folder; empty: drawn by the seed
  std::string save;     // FILE.safetensors for the weights after the last epoch; empty: none
  std::string save_names = "amdahl";   // of its tensors: amdahl, or huggingface: as transformers names and divides them
  int64_t checkpoint_every = 0;        // steps between checkpoints; 0: none
  bool rank_chose_output_dir = false;  // by itself: rank 0's counts. Otherwise all ranks must name the same
  std::string checkpoint_dir;          // empty: the folder "checkpoints" in `output_dir`
  /// Go on from the newest intact checkpoint of `checkpoint_dir`, or begin where it holds none. Records are appended to
  /// a run that `output_dir` already holds. With the same configuration the weights are, bit by bit, those of a
  /// training without interruption, where reruns are bit-equal (CPU devices, or `deterministic`).
  bool resume = false;
  /// When a process of a launched job dies: stop (Error{rank_died}), or shrink: the others go on from the last
  /// checkpoint, with the nearest plan of as many of them as one exists for. Needs `checkpoint_every`, and a launcher
  /// that lets processes live whose peer died. If rank 0 died, all processes must be on one host.
  std::string on_failure = "stop";
};

struct EpochResult {
  int epoch = 0;
  double train_loss = 0, validation_loss = 0;
  double validation_mae = -1;       // mean absolute error; negative for classification
  double validation_accuracy = -1;  // in [0, 1]; negative for regression
  double seconds = 0, samples_per_second = 0;
  int64_t memory_peak_bytes = 0;  // so far, on the first device
  double loss_scale = 0;          // of the next step, in fp16; 0: none
  int64_t skipped_steps = 0;      // so far, because a gradient was not finite, in fp16
};

struct TrainOutcome {
  std::vector<EpochResult> epochs;  // of this process: after `resume` without those before the checkpoint
  std::string run_dir;
  std::string report_path;
  std::string device_kind;
  int devices = 1;
  ModelSpec model;
  std::vector<Record> records;  // one per epoch, on the root process
  bool is_root = true;
  /// After the last epoch, in the order of the layers, on the root process; then the running statistics of layers.
  std::vector<NamedArray> weights;
};
/// The record of the last epoch in JSON, schema docs/schema/record.schema.json; empty on processes other than the root.
AMDAHL_API std::string to_json(const TrainOutcome& outcome);

/// Trains the model. Writes records and a report into `output_dir`; nothing when it is empty. A checkpoint is one file
/// with weights, optimizer state, step, epoch, position in the epoch and seed; it is written under a temporary name and
/// renamed, and the last two are kept. A damaged one is named in Observer::warning, and the one before is used.
/// Error{usage} for configurations out of range, infeasible plans, batches larger than the training data, and
/// checkpoints of another model, data, batch, optimizer or seed; Error{data_corrupt} for damaged data and when every
/// checkpoint is damaged; Error{non_finite} for NaN or infinity in data or loss; Error{check_failed} when the devices'
/// weights differ.
AMDAHL_API TrainOutcome run_train(const TrainConfig& config, Observer& observer);

}  // namespace amdahl
