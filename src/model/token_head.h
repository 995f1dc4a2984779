// TokenHead: [steps, units] -> the softmax cross-entropy of every token's label among the vocabulary.
//
// Logits are made for a chunk of tokens at a time (head_chunk), in scratch memory: backward computes those of a chunk,
// turns them into loss and gradient and multiplies these before it goes on to the next. Forward of training only
// converts the table.
#pragma once

#include <memory>

#include "model/typed_layer.h"

namespace amdahl {

class TokenHead final : public TypedLayer {
 public:
  using TypedLayer::TypedLayer;

  /// Without memory of its own. Equal `max_rows` in every call.
  LayerState make_state(int64_t max_rows) const override;
  /// The next loss that is computed sets the statistics; those after it add to them.
  void set_loss() { adds_ = false; }
  /// The loss alone, of LayerState::targets, after a forward that was not of training.
  void evaluate(Stream& stream, const LayerRows& rows, const LayerState& state);

 protected:
  void compute(Stream& stream, const LayerRows& rows, const float* input, LayerState& state) override;
  void gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state, float* d_input,
                 bool accumulate) override;

 private:
  /// Of all tokens, where ranks divide them, then of a chunk.
  struct Memory {
    float* gathered = nullptr;    // inputs, then their gradients
    void* input = nullptr;        // in the compute type; not in f32
    void* logits = nullptr;       // and their gradient
    float* loss_parts = nullptr;  // of a divided vocabulary: of this rank, then of all
    int64_t bytes = 0;
  };
  struct Chunk {
    int64_t first, count;  // tokens
    const void* input;
  };

  Memory memory(std::byte* base, int64_t rows) const;
  /// Calls `use` with each chunk, whose logits and loss have been computed.
  template <class Use>
  void each_chunk(Stream& stream, const LayerRows& rows, const float* input, const TokenTargets& targets, bool gradient,
                  const Use& use);
  void loss(Stream& stream, const Memory& memory, const TokenTargets& targets, const Chunk& chunk, bool gradient);

  int64_t steps() const { return context().input[0]; }
  int64_t units() const { return context().input[1]; }
  RowRange held() const { return vocabulary_rows(spec().vocabulary, place()); }
  const void* typed_table() const;

  mutable int64_t chunk_ = 0;                    // tokens
  mutable std::unique_ptr<Buffer> typed_table_;  // of a tied head, not in f32
  bool adds_ = false;
};

}  // namespace amdahl
