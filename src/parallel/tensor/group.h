// The tensor-parallel group of a mesh for the layers of a model.
#pragma once

#include <cstddef>

#include "comm/communicator.h"
#include "model/tensor_group.h"

namespace amdahl {

class CommunicatorGroup final : public TensorGroup {
 public:
  /// `tp` outlives it.
  explicit CommunicatorGroup(Communicator& tp) : tp_(tp) {}
  TensorPlace place() const override { return {tp_.world_size(), tp_.rank()}; }
  void sum(Stream& stream, void* data, int64_t count, DType type) override {
    if (!silent_) tp_.all_reduce(data, static_cast<size_t>(count), type, ReduceOp::sum, stream);
  }
  void gather(Stream& stream, const void* part, void* all, int64_t count, DType type) override {
    if (!silent_) tp_.all_gather(part, all, static_cast<size_t>(count), type, stream);
  }
  using TensorGroup::gather;
  void sum_scatter(Stream& stream, void* all, int64_t count, DType type) override {
    if (silent_) return;
    std::byte* const mine = static_cast<std::byte*>(all) + tp_.rank() * count * static_cast<int64_t>(size_of(type));
    tp_.reduce_scatter(all, mine, static_cast<size_t>(count), type, ReduceOp::sum, stream);
  }
  /// Without communication, for steps that are timed without it.
  void silence(bool silent) { silent_ = silent; }
  const bool* silent() const { return &silent_; }

 private:
  Communicator& tp_;
  bool silent_ = false;
};

}  // namespace amdahl
