// Checks that ranks that should hold the same parameters do, bit for bit.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/parameter_layout.h"

namespace amdahl {

struct TrainingParts;

/// A digest of each tensor of the model, in order of layers: weight, then bias where there is one.
using TensorHashes = std::vector<uint64_t>;
TensorHashes hash_tensors(const ParameterLayout& layout, const std::vector<float>& parameters);
inline TensorHashes hash_tensors(const ModelSpec& model, const std::vector<float>& parameters) {
  return hash_tensors(make_layout(model), parameters);
}

/// Returns Error{check_failed} that names the ranks that differ from most others and the first tensor that differs, or
/// null. `by_rank`: hash_tensors of every rank. `when` ends the message: "after step 500". `ranks`: their numbers in
/// the job; empty: 0, 1, and so on.
std::unique_ptr<Error> compare_replicas(const ParameterLayout& layout, const std::vector<TensorHashes>& by_rank,
                                        std::string_view when, const std::vector<int>& ranks = {});

inline std::unique_ptr<Error> compare_replicas(const ModelSpec& model, const std::vector<TensorHashes>& by_rank,
                                               std::string_view when) {
  return compare_replicas(make_layout(model), by_rank, when);
}

/// Where ranks hold parts alone (ZeRO): notes the sums of the bits of this rank's part of the parameters and of the
/// optimizer's state, which were set. Blocks.
void begin_own_state(TrainingParts& parts);
/// Error{check_failed} when that part changed otherwise than by updates since the last call, or since it was set, as
/// memory does that loses a bit. `when` ends the message. Blocks.
void check_own_state(TrainingParts& parts, std::string_view when);

/// Collective over the trainer's ranks; blocks. Throws the error of check_own_state on its rank, and that of
/// compare_replicas on every rank. Compares nothing for one rank, and for strategies whose ranks hold different
/// parameters.
void check_replicas(TrainingParts& parts, double timeout_seconds, std::string_view when);

}  // namespace amdahl
