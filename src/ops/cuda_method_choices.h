// Chooses between fused and separate kernels of a problem by timing both once.
#pragma once

#include <map>
#include <memory>

#include "device/cuda_stream.h"
#include "ops/cuda_choice.h"
#include "ops/cuda_context.h"

namespace amdahl {

/// The choices of one family of operations. `Key` identifies a problem; describe(key, choice) gives its line of
/// cuda_ops_choices.
template <class Key>
class MethodChoices {
 public:
  explicit MethodChoices(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}

  /// Fused or separate computation of `key`; times both when the key is new and the stream not captured. `run(method,
  /// memory, scratch, may_tune)` enqueues the work on the stream of `memory`, with output to the `scratch_bytes` at
  /// `scratch` if given.
  template <class Run>
  Method choose(Stream& stream, const Key& key, size_t scratch_bytes, const Run& run) {
    if (const auto found = choices_.find(key); found != choices_.end()) return found->second.method;
    if (context_->options().deterministic || is_capturing(stream)) return Method::fused;
    Choice choice;
    {
      StreamMemory& memory = context_->tuner_memory();
      context_->tuner().let_finish(as_cuda(stream));
      const TunerMemory scratch(context_->tuner(), context_->index(), scratch_bytes);
      run(Method::fused, memory, scratch.data(), true);  // chooses the GEMM algorithms first
      run(Method::separate, memory, scratch.data(), true);
      const auto time = [&](Method method) {
        return context_->tuner().time_us([&](cudaStream_t) { run(method, memory, scratch.data(), false); });
      };
      choice.fused_us = time(Method::fused);
      choice.separate_us = time(Method::separate);
      choice.method = choice.fused_us <= choice.separate_us ? Method::fused : Method::separate;
    }
    choices_.emplace(key, choice);
    context_->note_choice(describe(key, choice));
    return choice.method;
  }

 private:
  std::shared_ptr<CudaContext> context_;
  std::map<Key, Choice> choices_;
};

}  // namespace amdahl
