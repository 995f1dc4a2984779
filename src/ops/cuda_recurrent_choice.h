// Whether a recurrent layer runs on own kernels or on one of cuDNN's algorithms.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ops/cuda_cudnn_recurrent.h"
#include "ops/cuda_recurrent_parts.h"

namespace amdahl {

/// The fastest of both for each shape, found by timing a forward and a backward pass when a shape is first trained.
/// Own kernels alone in deterministic mode, on a partition of a GPU, in precisions that cuDNN is not asked for, and
/// where its algorithms give other results, differ from run to run, or cannot be captured. Used by the thread that
/// drives the device.
class RecurrentChoices {
 public:
  /// Own kernels: both enqueue on the stream.
  struct Own {
    std::function<int64_t(const RecurrentShape&)> saved_bytes;
    std::function<void(Stream&, const RecurrentForward&)> forward;
    std::function<void(Stream&, const RecurrentBackward&)> backward;
  };
  RecurrentChoices(std::shared_ptr<CudaContext> context, Own own)
      : context_(std::move(context)), own_(std::move(own)) {}

  /// False: own kernels are to compute it.
  bool forward(Stream& stream, const RecurrentForward& a);
  bool backward(Stream& stream, const RecurrentBackward& a);

 private:
  struct Key {
    RecurrentCell cell;
    int64_t batch, steps, input, hidden;
    bool last_step_only;
    DType type;
    auto operator<=>(const Key&) const = default;
  };
  static Key key_of(const RecurrentShape& s) {
    return {s.cell, s.batch, s.steps, s.input, s.hidden, s.last_step_only, s.type};
  }
  static constexpr int kOwn = -1;

  /// The chosen algorithm of cuDNN, or kOwn.
  int chosen(const RecurrentShape& shape) const;
  int measure(Stream& stream, const RecurrentForward& a);
  void* kept_for(const void* saved, size_t bytes);

  const std::shared_ptr<CudaContext> context_;
  const Own own_;
  bool opened_ = false;
  std::unique_ptr<CudnnRecurrent> cudnn_;
  std::map<Key, int> choices_;
  /// What cuDNN keeps beside a layer's saved memory, by its address. Smaller blocks stay: captured graphs may use them.
  std::map<const void*, std::vector<std::unique_ptr<Buffer>>> kept_;
};

}  // namespace amdahl
