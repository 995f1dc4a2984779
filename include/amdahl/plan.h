// ModelSpec: the architecture of a model, a chain of layers, with its number of parameters, operations and activation
// bytes. ParallelPlan: how a model is distributed over devices. Plain data without tensors.
//
// Example: two hidden layers.
//   amdahl::ModelSpec model{"mine", 50, {{256}, {64}, {3, true, amdahl::Activation::none}}};
//   model.validate();
//   std::printf("%lld parameters\n", static_cast<long long>(model.num_parameters()));
//
// Example: a global batch of 64 rows on two devices, in two micro-batches.
//   amdahl::ParallelPlan plan;
//   plan.strategy = "ddp", plan.mesh = {.dp = 2}, plan.global_batch = 64, plan.accumulate = 2;
//   std::printf("%lld rows\n", static_cast<long long>(plan.local_rows()));  // 16 per device and micro-batch
//
// All functions are thread-safe.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

enum class Activation { none, relu };
enum class LossKind { mse, softmax_cross_entropy };

/// What a layer computes; `layer_kinds()` of src/plan/layer_kinds.h has a row for each. Shapes are those of one row of
/// the batch.
enum class LayerKind {
  dense,              // [width] -> [units]
  embedding,          // tokens [steps] -> [steps, units]
  projection,         // [steps, features] -> [steps, units]
  transformer_block,  // [steps, units] -> [steps, units]
  layer_norm,         // [steps, units] -> [steps, units]
  pool,               // [steps, units] -> [units]
  lstm,               // [steps, features] -> [steps, units], or [units] of the last step
  gru,                // the same
  conv,               // [height, width, channels] -> [.., .., units]: convolution, batch normalisation, ReLU
  residual_block,     // the same: two or three convolutions and a shortcut
  average_pool,       // [height, width, channels] -> [channels]
  token_head,         // [steps, units] -> logits [steps, vocabulary]
  max_pool,           // [height, width, channels] -> [.., .., channels]
};

/// Which step a pooling layer keeps, or their mean.
enum class Pooling { mean, first, last };

enum class NormKind { layer, rms };                     // rms: x / sqrt(mean(x^2) + epsilon) * weight, without a bias
enum class MlpKind { gelu, swiglu, geglu };             // gated: down(act(gate(x)) * up(x)), act: SiLU or GELU
enum class RopeScaling { none, linear, llama3, yarn };  // of the frequencies of rotary positions

/// One layer. Members that a kind does not use keep their defaults.
struct LayerSpec {
  int64_t units = 0;  // features per row, step or pixel of the output
  bool bias = true;   // dense: y = dropout(activation(x W^T + b)), W [units, width], b [units]
  Activation activation = Activation::relu;
  double dropout = 0.0;  // dense: probability of zeroing an output, in [0, 1); above 0 it requires activation relu
  LayerKind kind = LayerKind::dense;
  int64_t vocabulary = 0;   // embedding, token_head: number of tokens
  bool positions = true;    // embedding, projection: adds a learned vector per step
  int64_t max_steps = 0;    // embedding, projection: learned positions; 0: as many as the input has steps
  int64_t end_token = -1;   // embedding: a document begins at each one, and attention stays within it; -1: none does
  int64_t token_types = 0;  // embedding: learned vectors of token types, of which type 0 is added to every token
  int64_t heads = 0;        // transformer_block: attention heads; without a head_dim they divide units
  bool causal = false;      // transformer_block: a step attends to itself and earlier steps only
  bool post_norm = false;   // transformer_block: normalises after each residual addition (BERT), else before (GPT-2)
  Pooling pooling = Pooling::mean;
  bool last_step_only = false;  // lstm, gru: the output is that of the last step
  // Of images, padded by kernel / 2: conv, max_pool; of a residual_block the stride alone.
  int64_t kernel = 3, stride = 1;
  int64_t bottleneck = 0;           // residual_block: channels of the 3x3 convolution between two of 1x1; 0: two of 3x3
  bool tied = false;                // token_head: its weight is the table of the embedding, the first layer
  int64_t chunk_rows = 0;           // token_head: tokens whose logits are in memory at once; 0: by head_chunk
  NormKind norm = NormKind::layer;  // transformer_block, layer_norm
  double epsilon = 1e-5;            // of these normalisations
  // transformer_block:
  int64_t kv_heads = 0;  // heads of keys and values, a divisor of heads; 0: heads
  int64_t head_dim = 0;  // features of a head; 0: units / heads
  int64_t hidden = 0;    // width between the two dense layers; 0: 4 x units
  MlpKind mlp = MlpKind::gelu;
  bool exact_gelu = false;  // of gelu and geglu: by erf, not by tanh
  bool qkv_bias = true, out_bias = true, mlp_bias = true;
  bool qk_norm = false;   // RMSNorm of each head's queries and keys, before the rotation
  int64_t window = 0;     // a step attends to itself and the window - 1 steps before it; 0: to all
  double rope_theta = 0;  // rotary positions: features i and i + head_dim / 2 are rotated together; 0: none
  RopeScaling rope_scaling = RopeScaling::none;
  double rope_factor = 1;
  int64_t rope_original_steps = 0;     // llama3, yarn: steps that the frequencies were made for
  double rope_low = 0, rope_high = 0;  // llama3: rotations in these steps below and above which frequencies are
                                       // divided by the factor or kept; yarn: the same (beta_slow, beta_fast)
  double rope_attention = 0;           // yarn: factor on cosine and sine; 0: 0.1 ln(rope_factor) + 1

  bool operator==(const LayerSpec&) const = default;
};

/// A chain of layers.
struct AMDAHL_API ModelSpec {
  std::string name;
  int64_t input_width = 0;  // features of a row, all dimensions together
  std::vector<LayerSpec> layers;
  LossKind loss = LossKind::mse;
  std::vector<int64_t> input_shape{};  // [steps, features], [steps] of tokens, [height, width, channels]; empty:
                                       // [input_width]

  /// Shape of a layer's input and output of one row. Layers must chain (`validate`).
  std::vector<int64_t> layer_input_shape(size_t layer) const;
  std::vector<int64_t> layer_output_shape(size_t layer) const;
  int64_t layer_input_width(size_t layer) const;   // product of the input shape
  int64_t layer_output_width(size_t layer) const;  // product of the output shape
  /// Targets per row (mse), or classes (cross-entropy).
  int64_t output_width() const;
  /// Class indices per row under cross-entropy: one, or one per step for a model that classifies tokens.
  int64_t labels_per_row() const;
  /// Floats of the targets of a row: output_width for mse, labels_per_row for cross-entropy.
  int64_t target_width() const;
  /// Number of tokens that the input may hold; 0 where the input is not tokens.
  int64_t vocabulary() const;
  /// Whether it has layers other than dense ones.
  bool is_mlp() const;

  /// Trainable parameters, without padding of the vocabulary; a tied weight counts once.
  int64_t num_parameters() const;
  /// Throws Error{usage} that names the first field out of range, or the first layer whose input does not fit.
  void validate() const;
};

/// FLOP of forward and backward of one step of `batch` rows: 2 per multiply-add of matrix products, convolutions and
/// attention (of whole scores, masked or not), without the gradient of the features and without recomputation.
AMDAHL_API double step_flops(const ModelSpec& model, int64_t batch);

/// The models of the published study, "medium" and "large" as its code defines them (54,403 and 2,021,379 parameters),
/// "medium-258k" and "large-6.9m" as its text states them (258,432 and 6,885,376); sequence models "lstm", "gru" and
/// "transformer"; "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"; "bert-base", "bert-large"; "resnet18", "resnet34" for
/// images of 32 x 32 pixels, "resnet50", "resnet152" for 1,000 classes of 224 x 224 pixels; decoders of the Llama,
/// Qwen2.5, Qwen3, Mistral and SmolLM2 families.
AMDAHL_API const std::vector<ModelSpec>& model_presets();
/// Preset by name. Error{usage} for an unknown name, with the nearest name and the list.
AMDAHL_API ModelSpec find_model_preset(std::string_view name);
/// The model with the input shape of its data, and the width and loss of its target; hidden layers stay. The model must
/// have a layer. Error{usage} when the first layer cannot take such an input.
AMDAHL_API ModelSpec fit_to_data(ModelSpec model, const std::vector<int64_t>& input_shape, int64_t output_width,
                                 LossKind loss);

enum class BackendKind { cpu, cuda };
enum class LaunchMode { eager, graph };
/// Of matrix products and convolutions; parameters, their gradients and the optimizer are f32 in every mode. fp16
/// scales the loss dynamically.
enum class MathMode { fp32, tf32, bf16, fp16 };
enum class Scaling { strong, weak };

AMDAHL_API std::string_view to_string(BackendKind kind);
AMDAHL_API std::string_view to_string(LaunchMode mode);
AMDAHL_API std::string_view to_string(MathMode mode);
AMDAHL_API std::string_view to_string(Scaling scaling);

/// Which activations of transformer blocks are not kept for backward but computed again.
enum class Recompute : int64_t {
  none,
  block,      // all but the block's input
  selective,  // all but attention's inputs and output: the normalisations and the first dense layer with its GELU
};

/// How layers are divided among pipeline stages.
enum class StageSplit : int64_t {
  blocks,  // as many transformer blocks in every stage; by FLOP in a model without blocks
  flops,   // by FLOP of forward and backward, so that stages may hold unequal numbers of blocks
};

/// Where a step's batch comes from.
enum class InputMode : int64_t {
  resident,  // the device's memory, which holds the data from the start
  prefetch,  // the host's memory: a second stream copies the next batch while a step runs
};

/// How gradients are rounded before they are sent. int8 and topk keep what was not sent (error feedback) and add it to
/// the gradients of the next step.
enum class Compression : int64_t {
  none,
  fp16,
  bf16,
  int8,  // codes of 8 bits, with a power of two as scale per block
  topk,  // the largest values of each block alone: the fraction `keep_ppm`
};

/// Values of PlanOptions::shares other than the weights of the ranks.
inline constexpr int64_t kEqualShares = 0, kAutoShares = int64_t{1} << 56;

/// How a step divides its work and when it communicates. `plan_fields()` has a row for each member. A new option needs
/// a member, a row and the code that implements it.
struct PlanOptions {
  int64_t accumulate = 1;           // micro-batches per optimizer step
  bool overlap = true;              // all-reduce during backward
  int64_t bucket_bytes = 25 << 20;  // all-reduce bucket capacity
  int64_t recompute = 0;            // activations that backward computes again: a Recompute
  bool sequence_parallel = false;   // tensor-parallel ranks divide the tokens between the layers that they divide
  int64_t schedule = 1;             // of micro-batches over pipeline stages: a ScheduleKind, by default 1f1b
  int64_t chunks = 0;               // pipeline stages per rank; 0: the fewest that the schedule is defined for
  int64_t split = 0;                // layers of the pipeline stages: a StageSplit
  int64_t input = 0;                // where batches come from: an InputMode
  int64_t local_sgd = 0;      // steps from one average of the ranks' parameters to the next; 0: gradients are summed
  int64_t compress = 0;       // of the gradients that are sent: a Compression
  int64_t keep_ppm = 10'000;  // of compress=topk: values that are sent, in millionths
  int64_t async_steps = 0;    // each gradient is applied N steps late, so that its all-reduce has N steps to finish
  int64_t virtual_shards =
      0;  // parts of every batch whose gradients are added in order on any number of devices; 0: none
  int64_t shares = kEqualShares;  // rows of the ranks: equal, by measured speed, or packed weights (pack_shares)
  int64_t peer_blocks = 0;        // zero1 on CUDA: thread blocks of a peer update during backward; 0: automatic

  auto operator<=>(const PlanOptions&) const = default;
};

/// Description of a member of PlanOptions.
struct PlanField {
  std::string_view name;  // in JSON, Records, run identities and errors: "bucket_bytes"
  std::string_view word;  // that users write: "bucket-mb"; of an option that is on by default, the one to disable it
  std::string_view help;
  std::variant<int64_t PlanOptions::*, bool PlanOptions::*> member;
  int64_t least = 0, most = 0;              // limits of a number, inclusive
  int64_t option_unit = 1;                  // member value of one unit that users write: 1 MiB for bucket-mb
  std::string_view unit_name{};             // of the value that users write: "MiB"
  std::string_view example{};               // value that users write
  bool is_axis = true;                      // runs that differ in it belong to different cells
  bool of_several = true;                   // has no effect on one device
  bool is_omitted = false;                  // not written when default, because older records lack the field
  std::string_view prefix{};                // in plan texts the value follows it: "m" of "m8"
  bool is_bare = false;                     // in plan texts the choice stands alone: "1f1b"
  std::vector<std::string_view> choices{};  // texts of the values 0, 1, ... in Records, identities and options
  /// Of values with texts of their own; both or neither. `parse` throws Error{usage}.
  std::string (*format)(int64_t value) = nullptr;
  int64_t (*parse)(std::string_view text) = nullptr;
  /// Whether Records hold the value as text.
  bool is_text() const { return !choices.empty() || format; }
  std::string (*words)(const PlanOptions& options) = nullptr;  // text in legends of plans that differ in it
};
AMDAHL_API const std::vector<PlanField>& plan_fields();

/// Value as text for run identities: "4", "yes", "block".
AMDAHL_API std::string text_of(const PlanField& field, const PlanOptions& options);
/// Throws Error{usage} for the first number out of its limits.
AMDAHL_API void check_plan_options(const PlanOptions& options);

/// Weights of the data-parallel ranks' shares as one number and back: at most 8 weights of at most 127, zeros at
/// the end left out. Error{usage} for others.
AMDAHL_API int64_t pack_shares(const std::vector<int>& weights);
/// Empty for kEqualShares and kAutoShares.
AMDAHL_API std::vector<int> unpack_shares(int64_t shares);
/// "equal", "auto", "3:1", and back.
AMDAHL_API std::string shares_text(int64_t shares);
AMDAHL_API int64_t parse_shares(std::string_view text);

/// Devices along each axis of parallelism: data (dp), tensor (tp) and pipeline (pp).
struct Mesh {
  int dp = 1, tp = 1, pp = 1;
  int size() const { return dp * tp * pp; }
  auto operator<=>(const Mesh&) const = default;
};

/// How one training step runs on the devices of a mesh. `strategy` names the algorithm along the data axis.
struct ParallelPlan : PlanOptions {
  std::string strategy = "single";
  Mesh mesh;
  int64_t global_batch = 0;  // rows per optimizer step over all devices

  int num_devices() const { return mesh.size(); }
  /// Rows per device and micro-batch; `replicated` and `single` compute all rows on each device.
  int64_t local_rows() const;
  bool operator==(const ParallelPlan&) const = default;
};

/// "dp2.tp2.pp2": the axes above 1, or "dp1".
AMDAHL_API std::string mesh_text(const Mesh& mesh);

/// A plan from its text: a mesh and, after commas and in any order, a strategy and fields of `plan_fields()`, as in
/// "dp2.tp2.pp2,1f1b,m8,zero1,recompute=block". What the text does not name has its default: all sizes 1, strategy ddp
/// or single, and with pipeline stages two micro-batches per stage rank. Error{usage} names the first part that is
/// unknown, out of its limits or given twice. Whether the plan can be executed is another question (plan_feasible).
AMDAHL_API ParallelPlan parse_plan(std::string_view text);
/// The shortest text that parse_plan turns into this plan (without its batch).
AMDAHL_API std::string format_plan(const ParallelPlan& plan);

}  // namespace amdahl
