// TokenPart: the tokens of a micro-batch that a rank has under sequence parallelism (Korthikanti et al., 2022): tensor-
// parallel ranks divide them between the layers that they compute together.
//
// Every rank has memory for equally many tokens; the last ranks may have fewer, or none.
#pragma once

#include <algorithm>
#include <cstddef>

#include "model/tensor_group.h"
#include "plan/shards.h"

namespace amdahl {

class TokenPart {
 public:
  /// `group`: the ranks that divide the tokens; null: they are not divided.
  TokenPart(TensorGroup* group, int64_t tokens)
      : group_(group),
        tokens_(tokens),
        each_(group ? tokens_of_rank(tokens, group->place().size) : tokens),
        begin_(group ? std::min(tokens, group->place().rank * each_) : 0) {}

  bool is_divided() const { return group_ != nullptr; }
  int64_t all() const { return tokens_; }
  /// Tokens of this rank.
  int64_t own() const { return std::min(tokens_, begin_ + each_) - begin_; }
  /// Tokens that each rank has memory for.
  int64_t each() const { return each_; }
  /// Tokens of an array that the ranks gather into or sum.
  int64_t gathered() const { return group_ ? each_ * group_->place().size : tokens_; }

  /// All tokens, from what every rank has: in `whole` [gathered(), width], or `own` where tokens are not divided. `own`
  /// may be mine(whole).
  const void* gather(Stream& stream, const void* own, void* whole, int64_t width, DType type) const {
    if (!group_) return own;
    group_->gather(stream, own, whole, each_ * width, type);
    return whole;
  }
  const float* gather(Stream& stream, const float* own, float* whole, int64_t width) const {
    return static_cast<const float*>(gather(stream, own, whole, width, DType::f32));
  }
  /// Sums `whole` [gathered(), width] over the ranks; each gets the sums of its own tokens, in mine(whole).
  void sum(Stream& stream, void* whole, int64_t width, DType type) const {
    if (group_) group_->sum_scatter(stream, whole, each_ * width, type);
  }
  /// This rank's tokens in an array of all.
  void* mine(void* whole, int64_t width, DType type) const {
    if (!group_) return whole;
    return static_cast<std::byte*>(whole) + group_->place().rank * each_ * width * static_cast<int64_t>(size_of(type));
  }

 private:
  TensorGroup* group_;
  int64_t tokens_, each_, begin_;
};

}  // namespace amdahl
