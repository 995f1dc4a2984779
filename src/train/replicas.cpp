#include "train/replicas.h"

#include <fmt/format.h>

#include <cstring>
#include <map>

#include "base/digest.h"
#include "comm/device_mesh.h"
#include "comm/rank_list.h"
#include "train/assemble.h"
#include "train/trainer_state.h"

namespace amdahl {
namespace {

struct NamedRange {
  std::string name;
  int64_t begin = 0, count = 0;  // floats of the layout
};

std::vector<NamedRange> tensors_of(const ParameterLayout& layout) {
  std::vector<NamedRange> tensors;
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    for (const TensorSlice& tensor : layout.layers[i].tensors)
      tensors.push_back(
          {fmt::format("{} of layer {}", tensor.spec.name, i), tensor.begin, tensor.spec.num_parameters()});
  }
  return tensors;
}

std::string pack(const TensorHashes& hashes) {
  return {reinterpret_cast<const char*>(hashes.data()), hashes.size() * sizeof(uint64_t)};
}

TensorHashes unpack(const std::string& bytes) {
  TensorHashes hashes(bytes.size() / sizeof(uint64_t));
  if (!hashes.empty()) std::memcpy(hashes.data(), bytes.data(), hashes.size() * sizeof(uint64_t));
  return hashes;
}

/// The hash that most ranks hold; on ties, that of the lowest rank.
uint64_t most_common(const std::vector<TensorHashes>& by_rank, size_t tensor) {
  std::map<uint64_t, size_t> counts;
  for (const TensorHashes& hashes : by_rank) ++counts[hashes[tensor]];
  uint64_t best = by_rank.front()[tensor];
  for (const TensorHashes& hashes : by_rank)
    if (counts[hashes[tensor]] > counts[best]) best = hashes[tensor];
  return best;
}

/// Of the bits of the owned parameters, then of each array of state. Allocates nothing: to free memory of a GPU waits
/// for all of its kernels, and one of another partition may be waiting for this rank.
std::vector<uint32_t> sums_of_own_state(TrainingParts& parts) {
  Device& device = parts.rank.device;
  Stream& compute = *parts.compute;
  OptimizerOps& ops = parts.rank.ops->optimizer();
  const std::vector<float*> arrays = parts.optimizer->state();
  std::vector<uint32_t> sums(1 + arrays.size());
  uint32_t* const on_device = parts.changes + sums.size();
  device.fill_zero(compute, on_device, sums.size() * sizeof(uint32_t));
  int64_t owned = 0;
  for (const FloatRange& range : parts.owned()) {
    ops.sum_bits(compute, parts.model.storage().owned_param(range.begin), range.floats(), on_device);
    owned += range.floats();
  }
  for (size_t i = 0; i < arrays.size(); ++i) ops.sum_bits(compute, arrays[i], owned, on_device + 1 + i);
  device.copy_out(compute, sums.data(), on_device, sums.size() * sizeof(uint32_t));
  compute.synchronize(parts.deadline());
  return sums;
}

}  // namespace

TensorHashes hash_tensors(const ParameterLayout& layout, const std::vector<float>& parameters) {
  TensorHashes hashes;
  for (const NamedRange& tensor : tensors_of(layout))
    hashes.push_back(digest_of({reinterpret_cast<const char*>(parameters.data() + tensor.begin),
                                static_cast<size_t>(tensor.count) * sizeof(float)}));
  return hashes;
}

std::unique_ptr<Error> compare_replicas(const ParameterLayout& layout, const std::vector<TensorHashes>& by_rank,
                                        std::string_view when, const std::vector<int>& ranks) {
  const auto number = [&](size_t index) { return ranks.empty() ? static_cast<int>(index) : ranks[index]; };
  const std::vector<NamedRange> tensors = tensors_of(layout);
  std::string first;
  std::vector<int> odd;  // ranks, in the first tensor that differs
  size_t different = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const uint64_t common = most_common(by_rank, i);
    std::vector<int> others;
    for (size_t rank = 0; rank < by_rank.size(); ++rank)
      if (by_rank[rank][i] != common) others.push_back(number(rank));
    if (others.empty() || ++different > 1) continue;
    first = tensors[i].name;
    odd = others;
  }
  if (different == 0) return nullptr;
  const std::string more = different > 1 ? fmt::format(" and {} more tensors", different - 1) : "";
  const std::string against = by_rank.size() == 2 ? fmt::format("rank {}", number(0)) : "the other ranks";
  return std::make_unique<Error>(
      Cause::check_failed,
      fmt::format("{} differs from {} in the {}{} {}: ranks that train one model hold the same bits", rank_list(odd),
                  against, first, more, when),
      "amdahl doctor and amdahl links for a faulty device or link, then the run again", odd.front());
}

void begin_own_state(TrainingParts& parts) {
  if (!parts.changes) return;
  parts.own_sums = sums_of_own_state(parts);
  parts.rank.device.fill_zero(*parts.compute, parts.changes, parts.own_sums.size() * sizeof(uint32_t));
  parts.synchronize();
}

void check_own_state(TrainingParts& parts, std::string_view when) {
  if (!parts.changes) return;
  parts.synchronize();
  std::vector<uint32_t> changes(parts.own_sums.size());
  parts.rank.device.copy_out(*parts.compute, changes.data(), parts.changes, changes.size() * sizeof(uint32_t));
  const std::vector<uint32_t> now = sums_of_own_state(parts);
  for (size_t i = 0; i < now.size(); ++i)
    if (now[i] != parts.own_sums[i] + changes[i])
      throw Error(
          Cause::check_failed,
          fmt::format("rank {}: its part of {} changed otherwise than by updates, {}: memory lost a bit",
                      parts.rank.rank,
                      i == 0 ? "the parameters" : state_name(parts.options.hyper, static_cast<int>(i) - 1), when),
          "amdahl doctor for a faulty device, then the run again", parts.rank.rank);
  begin_own_state(parts);
}

void check_replicas(TrainingParts& parts, double timeout_seconds, std::string_view when) {
  check_own_state(parts, when);
  const ParallelPlan& plan = parts.options.plan;
  Communicator& replicas = parts.divided.dp();
  if (replicas.world_size() < 2 || !parts.row.replicas) return;
  const ParameterLayout& layout = parts.model.layout();
  const std::string mine = pack(hash_tensors(layout, read_parameters(parts)));
  std::vector<TensorHashes> by_rank;
  for (const std::string& bytes : replicas.exchange(mine, Deadline::after_seconds(timeout_seconds)))
    by_rank.push_back(unpack(bytes));
  std::vector<int> ranks;
  for (int dp = 0; dp < replicas.world_size(); ++dp) {
    MeshPlace place = parts.divided.place();
    place.dp = dp;
    ranks.push_back(rank_of(plan.mesh, place));
  }
  if (const auto error = compare_replicas(layout, by_rank, when, ranks)) throw Error(*error);
}

}  // namespace amdahl
