// Tensor parallelism as data: which part of each parameter a rank holds.
//
// Dense layers form pairs (Shoeybi et al., 2019, Megatron-LM): the first one is column-parallel, each rank holds some
// of its units; the second one is row-parallel, each rank holds the weights of the inputs that it has. Transformer
// blocks are divided by heads and hidden units, recurrent layers by units, embeddings and token heads by the
// vocabulary. Any other layer, and a dense one without a partner, is whole on every rank.
#pragma once

#include <vector>

#include "amdahl/plan.h"
#include "plan/layer_kinds.h"
#include "plan/shares.h"
#include "plan/stages.h"

namespace amdahl {

enum class TensorRole {
  whole,    // on every rank
  column,   // dense: some of its units
  row,      // dense: some of its inputs
  divided,  // another kind, divided within
};

/// The place of a rank in a tensor-parallel group.
struct TensorPlace {
  int size = 1, rank = 0;
};

/// The part of a parameter tensor that a rank holds.
struct TensorShard {
  int axis = -1;                // -1: the whole tensor
  std::vector<RowRange> parts;  // indices of the axis, ascending; stored one after another
};

/// The role of each layer. `stages`: pipeline stages, which no pair crosses; empty: one stage.
std::vector<TensorRole> tensor_roles(const ModelSpec& model, const std::vector<LayerRange>& stages = {});

/// Whether every rank of `num_ranks` gets a part of each divided layer. If not, the reason names the layer and the
/// nearest number that is feasible.
Feasibility tensor_feasible(const ModelSpec& model, int num_ranks, const std::vector<LayerRange>& stages = {});

/// Sequence parallelism: whether tensor-parallel ranks divide the tokens of each layer's output. From an embedding or a
/// projection on, the outputs of normalisations and transformer blocks are divided.
std::vector<bool> divided_tokens(const ModelSpec& model);
/// Whether that is so for some transformer block, and the layers behind are ones that gather the tokens.
Feasibility sequence_feasible(const ModelSpec& model);
/// The most tokens of a rank.
inline int64_t tokens_of_rank(int64_t tokens, int num_ranks) { return (tokens + num_ranks - 1) / num_ranks; }

/// The units of a column-parallel layer that a rank holds, in groups of four, because one dropout draw covers four.
RowRange column_units(int64_t units, const TensorPlace& place);

/// The rows of an embedding table or token head that a rank holds, some of which may be padding beyond the vocabulary.
RowRange vocabulary_rows(int64_t vocabulary, const TensorPlace& place);

/// The shard of each parameter of a layer, in the order of parameters_of.
std::vector<TensorShard> parameter_shards(const ModelSpec& model, size_t layer, TensorRole role,
                                          const TensorPlace& place);
/// The parameters as a rank stores them: `shape` and `padded_rows` are those of the shard.
std::vector<ParameterSpec> shard_parameters(const ModelSpec& model, size_t layer, TensorRole role,
                                            const TensorPlace& place);

}  // namespace amdahl
