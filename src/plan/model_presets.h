// How models of the known families are built, from the numbers that a preset or a foreign configuration has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "amdahl/plan.h"

namespace amdahl {

/// Steps of a decoder whose rows nothing else decides, or the most that it was made for.
inline constexpr int64_t kDecoderSteps = 4096;

/// A stack of equal blocks over tokens.
struct TokenModel {
  std::string name{};
  LayerSpec block{};  // units and all parts
  size_t blocks = 0;
  int64_t vocabulary = 0, steps = 0;
  int64_t positions = 0;    // learned ones; 0: none
  int64_t token_types = 0;  // BERT
  bool tied = false;        // of a decoder: the head's weight is the table
};
/// Embedding, causal blocks, a normalisation as in the blocks, logits of every token (GPT-2, Llama).
ModelSpec decoder_model(const TokenModel& tokens);
/// Embedding, normalisation, blocks that normalise last, and the pooler, without the classifier of a task (BERT).
ModelSpec encoder_model(const TokenModel& tokens);

/// A layer of a kind other than dense.
LayerSpec of_kind(LayerKind kind, int64_t units = 0);

}  // namespace amdahl
