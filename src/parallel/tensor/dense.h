// Tensor parallelism of dense layers (Shoeybi et al. 2019, Megatron-LM): neighbouring layers form pairs whose hidden
// units are divided among the ranks.
//
// The first layer of a pair is column-parallel: each rank holds some of its units and computes them from the whole
// input. The second one is row-parallel: each rank holds the weights of the inputs that it has, and the partial GEMM
// results of the ranks are summed. A pair communicates twice per micro-batch: all-reduces of its output in forward, and
// of the gradient of its input in backward (except in the model's first pair). A last layer without a partner is
// computed whole by every rank.
#pragma once

#include <vector>

#include "comm/communicator.h"
#include "model/model.h"
#include "plan/shards.h"

namespace amdahl {

/// The part of each layer's weight that `rank` holds. Units are divided in groups of four, because one dropout draw
/// covers four.
std::vector<WeightShard> tensor_shards(const ModelSpec& model, int num_ranks, int rank,
                                       const std::vector<TensorRole>& roles);
inline std::vector<WeightShard> tensor_shards(const ModelSpec& model, int num_ranks, int rank) {
  return tensor_shards(model, num_ranks, rank, tensor_roles(model));
}

/// Bytes that each rank passes to all-reduces in one step of `rows` rows.
int64_t tensor_traffic_bytes(const ModelSpec& model, int num_ranks, int64_t rows);

/// What a rank of the group `tp` uses; everything must outlive the models made with it.
struct TensorContext {
  Device& device;
  Ops& ops;
  Communicator& tp;
  const bool* silent = nullptr;  // where true, nothing is summed
};

/// Makes the dense layers of a Model on this rank.
LayerFactory tensor_layers(const ModelSpec& model, const std::vector<TensorRole>& roles, const TensorContext& context);

/// `options` for a Model that holds this rank's shards: its forward gives every rank the whole output, its loss is the
/// same on every rank, and its gradients are those of the shards. Error{usage} when not feasible (tensor_feasible).
ModelOptions tensor_parallel(const ModelSpec& model, const TensorContext& context, ModelOptions options);

}  // namespace amdahl
