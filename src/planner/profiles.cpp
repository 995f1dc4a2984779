// What training programs do besides their mathematics, counted in their sources.
#include "plan/math_mode.h"
#include "planner/workload.h"

namespace amdahl {

SoftwareProfile amdahl_profile() {
  SoftwareProfile profile;
  profile.name = "amdahl";
  profile.score_bytes = 0;
  profile.whole_bytes = 4 * 30;
  profile.divided_bytes = 4 * 16;
  profile.logit_bytes = 4 * 4, profile.chunks_logits = true;
  profile.block_kernels = 40;
  return profile;
}

// Counted in model/transformer_block.cpp, model/sequence_layers.cpp and ops/gemm, with e bytes of the type
// in which blocks compute; the residual stream and its gradient are f32.
SoftwareProfile amdahl_gpu_profile(std::string_view math) {
  SoftwareProfile profile = amdahl_profile();
  const bool narrow = math == "bf16" || math == "fp16", tensor_cores = math != "fp32";
  const double e = narrow ? 2 : 4;
  profile.typed_bytes = e;
  profile.converts_f32 = narrow;
  profile.converted_bytes = narrow ? 6 : 0;
  profile.skips_causal = profile.sums_vocabulary = profile.splits_sums = true;
  // Forward: normalisation 4 + e; sum and normalisation 4 + e + 4 + e; sum 4 + e + 4. Backward: gradient of two
  // normalisations 2 (e + 4 + 4 + 4); in another type copies of the residual stream's gradient, 4 + e and e. Sums of
  // two biases 2 e.
  profile.whole_bytes = 20 + 4 * e + 24 + 2 * e + (narrow ? 4 + 2 * e : 0) + 2 * e;
  // GELU's input and output 4 e, its gradient 4 e, bias of q, k and v 3 e and of the first dense layer 4 e; attention's
  // gradient reads its output and that one's gradient once more, and sums those of q in f32.
  profile.divided_bytes = 15 * e + 2 * e + 8 + e;
  profile.attention_tile = 64;
  profile.logit_bytes = 2 * e;  // the loss replaces logits by their gradient
  profile.block_kernels = narrow ? 30 : 27;
  profile.added_bytes = 4, profile.block_add_kernels = 4, profile.dense_add_kernels = 1;
  profile.loss_kernels = 1, profile.persistent_units = 256;
  // Weights and inputs in 16 bits, product, positions; gradient in 16 bits, product and sums of the bias.
  profile.projection_kernels = narrow ? 7 : 3;
  // Dropout reads and writes what the product wrote, and the mask of the layer below the gradient of the input; tensor
  // cores need operands that are contiguous along the summed dimension: of the gradient of the weights one is
  // transposed by a launch of its own. A second stream has these gradients' launches.
  profile.dense_bytes = 0, profile.dropout_bytes = 8, profile.mask_bytes = 8;
  profile.dense_kernels = 3, profile.dropout_kernels = 1, profile.weight_kernels = tensor_cores ? 3 : 2;
  if (!tensor_cores) return profile;
  profile.transposed_bytes = 8, profile.transposed_rows = 256;
  profile.most_transposed_bytes = 32 << 20;  // half of the workspace: ops/gemm/cuda_gemm.cpp
  if (math != "fp16") profile.small_rows = static_cast<double>(kSmallRows);
  return profile;
}

SoftwareProfile megatron_profile() {
  SoftwareProfile profile;
  profile.name = "megatron";
  profile.element_bytes = profile.typed_bytes = 2;
  profile.divides_transfers = true;
  // Per score, fp16 with byte masks: softmax 4 + 6, dropout 5 + 5, reads and writes of the products 12.
  profile.score_bytes = 32;
  // Two normalisations 8 + 20, bias and dropout and residual 14 + 22, gradients of biases 4.
  profile.whole_bytes = 68;
  // GELU with bias 16 + 24 + 8, bias of q, k and v 12 + 6, transposes 16 + 16.
  profile.divided_bytes = 98;
  profile.accumulate_bytes = 10;  // read fp16, read and write fp32
  profile.logit_bytes = 24;       // cross-entropy in fp32 of fp16 logits
  profile.block_kernels = 58;
  profile.unfused_kernels = 10;
  profile.pads_alone = false, profile.repeats_whole = true;
  profile.gradient_bytes = 2;
  return profile;
}

}  // namespace amdahl
