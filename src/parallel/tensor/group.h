// The tensor-parallel group of a mesh for the layers of a model.
#pragma once

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
  void gather(Stream& stream, const float* part, float* all, int64_t count) override {
    if (!silent_) tp_.all_gather(part, all, static_cast<size_t>(count), DType::f32, stream);
  }
  /// Without communication, for steps that are timed without it.
  void silence(bool silent) { silent_ = silent; }
  const bool* silent() const { return &silent_; }

 private:
  Communicator& tp_;
  bool silent_ = false;
};

}  // namespace amdahl
