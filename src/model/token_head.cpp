#include "model/token_head.h"

#include <algorithm>
#include <utility>

namespace amdahl {

LayerState TokenHead::make_state(int64_t max_rows) const {
  const int64_t logits = held().rows();
  chunk_ = head_chunk(spec(), max_rows * steps(), logits * static_cast<int64_t>(size_of(type())));
  context().scratch.reserve(memory(nullptr, max_rows).bytes);
  if (!computes_in_f32() && spec().tied && !typed_table_) typed_table_ = buffer(logits * units(), type());
  return {};
}

TokenHead::Memory TokenHead::memory(std::byte* base, int64_t rows) const {
  const TokenPart part = input_tokens(rows);
  ScratchParts parts(base);
  Memory memory;
  memory.gathered = parts.floats(part.is_divided() ? part.gathered() * units() : 0);
  if (!computes_in_f32()) memory.input = parts.take(chunk_ * units(), type());
  memory.logits = parts.take(chunk_ * held().rows(), type());
  if (context().tensor) memory.loss_parts = parts.floats(chunk_ * kShardLossFloats * (1 + place().size));
  memory.bytes = parts.bytes();
  return memory;
}

const void* TokenHead::typed_table() const {
  if (computes_in_f32()) return tensor(0).value;
  return spec().tied ? typed_table_->data() : typed(0);
}

void TokenHead::compute(Stream& stream, const LayerRows&, const float*, LayerState&) {
  if (computes_in_f32()) return;
  if (spec().tied)
    ops().matmul().convert(stream, tensor(0).value, typed_table_->data(), type(), held().rows() * units());
  else
    convert_parameters(stream);
}

void TokenHead::loss(Stream& stream, const Memory& memory, const TokenTargets& targets, const Chunk& chunk,
                     bool gradient) {
  const float* const labels = targets.labels + chunk.first;
  const bool adds = std::exchange(adds_, true);
  if (!context().tensor)
    return ops().sequence().token_loss(stream, {.logits = memory.logits,
                                                .labels = labels,
                                                .stats = targets.stats,
                                                .rows = chunk.count,
                                                .classes = spec().vocabulary,
                                                .stride = held().rows(),
                                                .scale = targets.scale,
                                                .type = type(),
                                                .accumulate = adds,
                                                .gradient = gradient,
                                                .gradient_scale = targets.gradient_scale});
  float* const all = memory.loss_parts + chunk.count * kShardLossFloats;
  TokenLossShard shard{.logits = memory.logits,
                       .labels = labels,
                       .parts = memory.loss_parts,
                       .rows = chunk.count,
                       .first = held().begin,
                       .classes = std::min(held().end, spec().vocabulary) - held().begin,
                       .stride = held().rows(),
                       .type = type()};
  ops().sequence().token_loss_parts(stream, shard);
  context().tensor->gather(stream, memory.loss_parts, all, chunk.count * kShardLossFloats);
  shard.parts = all;
  shard.shards = place().size;
  shard.stats = targets.stats;
  shard.scale = targets.scale;
  shard.accumulate = adds;
  ops().sequence().token_loss_of_parts(stream, shard);
}

template <class Use>
void TokenHead::each_chunk(Stream& stream, const LayerRows& rows, const float* own_input, const TokenTargets& targets,
                           bool gradient, const Use& use) {
  const Memory memory = this->memory(context().scratch.data(), rows.rows);
  const float* const input = input_tokens(rows.rows).gather(stream, own_input, memory.gathered, units());
  const int64_t tokens = rows.rows * steps();
  for (int64_t first = 0; first == 0 || first < tokens; first += chunk_) {
    Chunk chunk{first, std::min(chunk_, tokens - first), input + first * units()};
    if (!computes_in_f32()) {
      ops().matmul().convert(stream, input + first * units(), memory.input, type(), chunk.count * units());
      chunk.input = memory.input;
    }
    ops().matmul().matmul(stream, {.a = chunk.input,
                                   .b = typed_table(),
                                   .c = memory.logits,
                                   .m = chunk.count,
                                   .n = held().rows(),
                                   .k = units(),
                                   .transpose_b = true,
                                   .type = type(),
                                   .c_type = type()});
    loss(stream, memory, targets, chunk, gradient);
    use(memory, chunk);
  }
}

void TokenHead::evaluate(Stream& stream, const LayerRows& rows, const LayerState& state) {
  each_chunk(stream, rows, state.input, state.targets, false, [](const Memory&, const Chunk&) {});
}

void TokenHead::gradients(Stream& stream, const LayerRows& rows, const float* input, const LayerState& state,
                          float* d_input, bool accumulate) {
  const TokenPart part = input_tokens(rows.rows);
  float* const dx = part.is_divided() ? token_scratch() : d_input;
  each_chunk(stream, rows, input, state.targets, true, [&](const Memory& memory, const Chunk& chunk) {
    ops().matmul().matmul(stream, {.a = memory.logits,
                                   .b = chunk.input,
                                   .c = tensor(0).gradient,
                                   .m = held().rows(),
                                   .n = units(),
                                   .k = chunk.count,
                                   .transpose_a = true,
                                   .type = type(),
                                   .accumulate = accumulate || chunk.first > 0});
    if (d_input)  // of divided tokens in place of the inputs, which the product above has read
      ops().matmul().matmul(stream, {.a = memory.logits,
                                     .b = typed_table(),
                                     .c = dx + chunk.first * units(),
                                     .m = chunk.count,
                                     .n = units(),
                                     .k = held().rows(),
                                     .type = type()});
  });
  if (!d_input) return;
  if (!part.is_divided()) return sum_parts(stream, d_input, rows.rows * input_width(), DType::f32);
  part.sum(stream, dx, units(), DType::f32);
  take_tokens(stream, part, dx, d_input, units());
}

}  // namespace amdahl
