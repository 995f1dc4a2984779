// What one training step asks of a device, as counts: matrix products, bytes, kernels, collectives. No times: rates.h
// has the constants of a machine, terms.h turns counts into microseconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/plan.h"
#include "plan/pipeline_kinds.h"

namespace amdahl {

/// One matrix product of forward, [m, k] x [k, n]. Backward has two of the same size, except in the first layer.
struct GemmWork {
  double m = 0, n = 0, k = 0;
  bool aligned = true;                                                 // n is a multiple of the tile of tensor cores
  double count = 1;                                                    // of equal products, one after another
  bool few_rows = false;                                               // by a kernel for few rows
  bool forward = true, input_gradient = true, weight_gradient = true;  // which of its three products there are
  double weight_rows = 0;        // rows of one product for the weights' gradient of all `count`; 0: each has its own
  double element_bytes = 4;      // of operands and results, except of the gradient of the weights, which is f32
  bool converts = false;         // f32 operands that the product rounds to 16 bits itself
  bool splits_sums = false;      // over multiprocessors without a tile
  bool reads_ahead = false;      // operands while it computes
  bool strided_weights = false;  // the gradient of the weights has no operand contiguous along its sum, nor a copy
};

/// Attention of one layer on one device: `batch` = rows x heads of this device.
struct AttentionWork {
  double batch = 0, steps = 0, head_size = 0;
  double score_bytes = 0;  // bytes of element-wise kernels per score, forward and backward; 0: a fused kernel
  double share = 1;        // of the scores that are computed: of a causal mask's zeros none
  double tile = 0;         // steps of a block of the kernel; 0: kernels that fill the device
};

/// A kernel that runs a whole sequence, forward and backward: clusters of `blocks` multiprocessors, each of which has
/// some of the `tiles` of rows.
struct RecurrentWork {
  double steps = 0, tiles = 0, blocks = 0;
};

/// One layer (or several equal ones) on one device for one micro-batch, forward and backward.
struct LayerWork {
  int repeats = 1;
  std::vector<GemmWork> gemms;
  bool has_input_gradient = true;
  AttentionWork attention;
  RecurrentWork recurrent;
  double bytes = 0;                                           // of element-wise kernels, normalisation and gathers
  double kernels = 0;                                         // launches
  double events = 0;                                          // at which a second stream waits, or is waited for
  double extra_kernels = 0;                                   // launches of an attention softmax that is not fused
  double collectives = 0;                                     // of the tensor axis
  double collective_bytes = 0;                                // of each
  double parameters = 0;                                      // on this device
  double pinned = 0;                                          // of these, a table that the output layer reads too
  double repeated_share = 0;                                  // of its products and bytes that backward does again
  double repeated_attention = 0;                              // of attention
  double repeated_collectives = 0;                            // of its collectives
  double repeated_kernels = 0;                                // launches of that
  double weight_share = 0;                                    // of its work: gradients of weights by themselves
  bool splits_gradient = false;                               // backward computes its weights' gradient by pieces
  enum class Host { block, input, head } host = Host::block;  // which constant its launches have
};

struct StageWork {
  std::vector<LayerWork> layers;
  double parameters = 0;
};

struct Workload {
  Mesh mesh;
  int64_t micro_batches = 1;
  double micro_rows = 1;
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int chunks = 1;
  int zero_stage = 0;
  bool overlap = false;
  double bucket_bytes = 25 << 20;
  std::vector<StageWork> stages;  // pipeline stages: `chunks` per rank, which rank_of_stage assigns
  double transfer_bytes = 0;      // between neighbouring stages, each direction
  double gradient_bytes = 4;      // per parameter in the all-reduce of the data axis
  bool has_unseen = false;        // layers that no probe has
  bool has_recurrent = false;
  double flops = 0;  // of the whole step over all devices

  /// Parameters of each pipeline rank.
  std::vector<double> rank_parameters() const;
  /// How often a step sums a gradient over the data axis, and how often it gathers a parameter, on average of those
  /// of the fullest rank: once each in an all-reduce.
  double reductions() const;
  double gathers() const;
  /// Collectives over the data axis in a step of the fullest rank.
  double data_calls() const;
  /// Bytes that threads read and write for them, in units of those of an all-reduce of the parameters.
  double thread_passes() const;
  /// Bytes that a step touches on the device with most parameters: parameters with gradients and Adam's state, and
  /// activations. `updates`: else a micro-batch, without the state.
  double touched_bytes(bool updates = true) const;
};

/// Properties of a training program that are counted in its source, not fitted.
struct SoftwareProfile {
  std::string name;
  double element_bytes = 4;      // of activations between layers, and of dense layers' weights in products
  double typed_bytes = 4;        // of operands within blocks, of logits, and of sums of a block over tp
  double converted_bytes = 0;    // per parameter of such layers and micro-batch: making a copy of that type
  bool splits_sums = false;      // of products over multiprocessors without a tile of the result
  bool converts_f32 = false;     // products of dense layers round their f32 operands
  bool sums_vocabulary = false;  // embedding and output layer have sums over tp
  bool skips_causal = false;     // attention computes only the scores that a causal mask keeps
  double attention_tile = 0;     // as AttentionWork
  double score_bytes = 0;        // as AttentionWork
  double whole_bytes = 0;        // element-wise bytes of a transformer block per row, step and unit, not divided by tp
  double divided_bytes = 0;      // those that tp divides
  double accumulate_bytes = 0;   // per parameter and micro-batch: adding a gradient to its sum
  double logit_bytes = 0;        // per logit
  bool chunks_logits = false;    // of head_chunk tokens at a time
  double block_kernels = 0;      // launches of a transformer block, forward and backward
  double dense_bytes = 12;       // of a dense layer per value of input and output; other layers have 12
  double dropout_bytes = 0;      // more per output with dropout
  double mask_bytes = 0;         // more per input of a dense layer that has an input gradient: mask of the layer below
  double transposed_bytes = 0;   // more per output with at least `transposed_rows` rows
  double transposed_rows = 0;
  double most_transposed_bytes = 0;  // of the output's gradient, which has no copy beyond them; 0: no limit
  double dense_kernels = 3;          // launches of a dense layer, forward and backward
  double dropout_kernels = 2;        // more of them with dropout
  double projection_kernels = 0;     // launches of a projection of inputs; 0: as a dense layer
  double loss_kernels = 0;           // launches of a micro-batch's loss, except of tokens
  int64_t persistent_units = 0;      // up to so many a recurrent layer has one kernel for the sequence, each direction
  double added_bytes = 0;            // per parameter and micro-batch but the first: reading the gradient's sum
  double block_add_kernels = 0, dense_add_kernels = 0;  // launches that add sums of biases to those before
  double weight_kernels = 0;   // more of them without a second stream for the gradients of weights
  double small_rows = 0;       // up to so many rows a dense layer has a kernel of its own, one forward and one backward
  double unfused_kernels = 0;  // more of them when rows x heads is no multiple of 4
  bool divides_transfers = false;  // between stages: each rank of tp sends a part, which the receivers gather
  bool repeats_whole = false;      // recomputation of a block is that of all of its forward pass
  bool pads_alone = true;          // pads the vocabulary also on one device
  double gradient_bytes = 4;
};

/// This program on a CPU, f32.
SoftwareProfile amdahl_profile();
/// This program on GPUs. `math`: "fp32", "tf32", "bf16".
SoftwareProfile amdahl_gpu_profile(std::string_view math);
/// Megatron-LM of 2022 in fp16 with activations kept, as in the measured file of tests/data/planner.
SoftwareProfile megatron_profile();

/// Counts of one step of a plan of the engine, on the fullest rank of each axis. Error{usage} for a plan that is not
/// feasible.
Workload make_workload(const ModelSpec& model, const ParallelPlan& plan, const SoftwareProfile& software);
/// Sets what of a plan does not change the counts of a stage: micro-batches, schedule, ZeRO, overlap and buckets.
void set_step(const ParallelPlan& plan, Workload& work);

}  // namespace amdahl
