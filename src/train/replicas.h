// Whether ranks that should hold the same parameters do, bit by bit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "train/trainer.h"

namespace amdahl {

/// A digest of each tensor of the model, in order of layers: weight, then bias where there is one.
using TensorHashes = std::vector<uint64_t>;
TensorHashes hash_tensors(const ModelSpec& model, const std::vector<float>& parameters);

/// Error{check_failed} with the rank that differs from most others and the first tensor in which it does, or null.
/// `by_rank`: hash_tensors of every rank. `when` ends the message: "after step 500".
std::unique_ptr<Error> compare_replicas(const ModelSpec& model, const std::vector<TensorHashes>& by_rank,
                                        std::string_view when);

/// Collective over the trainer's ranks, and blocking: throws compare_replicas's error on all of them. Nothing for
/// strategies that leave the ranks with different parameters, and for one rank.
void check_replicas(const RankContext& rank, Trainer& trainer, const TrainerOptions& options, std::string_view when);

}  // namespace amdahl
