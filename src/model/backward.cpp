// The orders in which a model's backward pass computes its gradients.
#include <algorithm>

#include "model/model.h"

namespace amdahl {
namespace {

/// Calls BackwardOptions::around before and after a GEMM is enqueued.
class Around {
 public:
  Around(const BackwardOptions& options, const char* gemm, size_t layer, Stream& stream)
      : options_(options), gemm_(gemm), layer_(layer), stream_(stream) {
    if (options_.around) options_.around(true, gemm_, layer_, stream_);
  }
  ~Around() {
    if (options_.around) options_.around(false, gemm_, layer_, stream_);
  }
  Around(const Around&) = delete;
  Around& operator=(const Around&) = delete;

 private:
  const BackwardOptions& options_;
  const char* gemm_;
  size_t layer_;
  Stream& stream_;
};

void tell_ready(const BackwardOptions& options, int64_t begin, int64_t end, Stream& stream) {
  if (options.ready) options.ready(begin, end, stream);
}

}  // namespace

void Model::backward(Stream& stream, const BatchView& batch, bool accumulate, const BackwardOptions& options,
                     int slot) {
  // A gate adds up the gradients of micro-batches elsewhere.
  const bool adds = accumulate && (!storage_->gate || storage_->shards.held_whole);
  const Pass pass{stream, batch, adds, options, slots_[static_cast<size_t>(slot)]};
  if (storage_->gate && options.order != GradientOrder::layerwise)
    throw Error(Cause::internal, "divided gradients are computed layer by layer");
  switch (options.order) {
    case GradientOrder::layerwise:
      return backward_layerwise(pass);
    case GradientOrder::dgrad_first:
      return backward_dgrad_first(pass);
    case GradientOrder::two_streams:
      return backward_two_streams(pass);
  }
}

void Model::backward_inputs(Stream& stream, const BatchView& batch, bool accumulate, int slot) {
  LayerGate* const gate = storage_->gate;
  if (gate && !storage_->shards.held_whole)
    throw Error(Cause::internal, "these divided gradients are computed in one pass");
  const BackwardOptions options;
  const Pass pass{stream, batch, accumulate, options, slots_[static_cast<size_t>(slot)]};
  const size_t first = range_.first + (has_input_gradient(range_.first) ? 0 : 1);
  for (size_t i = range_.last; i-- > first;) {
    const GatedLayer at{i, first, range_.last, true, true, false};
    if (gate) gate->before(stream, at);
    backward_input(pass, i);
    if (gate) gate->after(stream, at);
  }
}

void Model::backward_weights(Stream& stream, const BatchView& batch, bool accumulate, int slot_index) {
  Slot& slot = slots_[static_cast<size_t>(slot_index)];
  LayerGate* const gate = storage_->gate;
  for (size_t i = range_.last; i-- > range_.first;) {
    // A layer that is not dense computes both gradients at once, in the first call where it has an input gradient.
    const bool reads = !has_input_gradient(i) && spec_.layers[i].kind != LayerKind::dense;
    const GatedLayer at{i, i, i + 1, true, reads, true};
    if (gate) gate->before(stream, at);
    layer(i).backward_weight(stream, rows_of(batch, slot, true), input_of(batch, slot, i), state(slot, i),
                             {0, layout().layers[i].shard.rows()}, has_own_bias(i), accumulate, 0);
    if (gate) gate->after(stream, at);
  }
}

void Model::backward_layerwise(const Pass& pass) {
  for (size_t i = range_.last; i-- > range_.first;) {
    const LayerRows rows = rows_of(pass.batch, pass.slot, true);
    const float* input = input_of(pass.batch, pass.slot, i);
    if (storage_->gate) storage_->gate->before(pass.stream, gated(i, true));
    {
      const Around around(pass.options, "gradients", i, pass.stream);
      if (!has_input_gradient(i) && pass.options.first_weights)
        layer(i).backward_update(pass.stream, rows, input, state(pass.slot, i), *pass.options.first_weights);
      else
        layer(i).backward(pass.stream, rows, input, state(pass.slot, i), input_gradient_of(pass.slot, i),
                          epilogue_below(pass.batch, pass.slot, i), has_own_bias(i), pass.accumulate);
    }
    if (storage_->gate) storage_->gate->after(pass.stream, gated(i, true));
    tell_ready(pass.options, layout().layers[i].begin, layout().layers[i].end, pass.stream);
  }
}

void Model::backward_dgrad_first(const Pass& pass) {
  for (size_t i = range_.last; i-- > range_.first;)
    if (has_input_gradient(i)) backward_input(pass, i);
  std::vector<GradientPiece> ordered = *pass.options.pieces;
  const auto layer_floats = [&](size_t index) { return layout().layers[index].end - layout().layers[index].begin; };
  std::stable_sort(ordered.begin(), ordered.end(), [&](const GradientPiece& a, const GradientPiece& b) {
    return layer_floats(a.layer) > layer_floats(b.layer);
  });
  for (const GradientPiece& piece : ordered) backward_piece(pass, pass.stream, piece, &piece == &ordered.front());
}

void Model::backward_two_streams(const Pass& pass) {
  Stream& second = *pass.options.second_stream;
  const std::vector<GradientPiece>& pieces = *pass.options.pieces;
  size_t next = 0;  // pieces are in layout order: last layer first
  for (size_t i = range_.last; i-- > range_.first;) {
    Event& output_gradient_done = *chain_[i - range_.first];
    pass.stream.record(output_gradient_done);
    second.wait(output_gradient_done);
    if (has_input_gradient(i)) backward_input(pass, i);
    for (; next < pieces.size() && pieces[next].layer == i; ++next)
      backward_piece(pass, second, pieces[next], next == 0);
  }
  second.record(*weights_done_);
  pass.stream.wait(*weights_done_);
}

void Model::backward_input(const Pass& pass, size_t index) {
  const Around around(pass.options, "input gradient", index, pass.stream);
  layer(index).backward_input(pass.stream, rows_of(pass.batch, pass.slot, true), state(pass.slot, index),
                              input_gradient_of(pass.slot, index), epilogue_below(pass.batch, pass.slot, index),
                              pass.accumulate);
}

void Model::backward_piece(const Pass& pass, Stream& stream, const GradientPiece& piece, bool first) {
  {
    const Around around(pass.options, "weight gradient", piece.layer, stream);
    layer(piece.layer)
        .backward_weight(stream, rows_of(pass.batch, pass.slot, true), input_of(pass.batch, pass.slot, piece.layer),
                         state(pass.slot, piece.layer), {piece.row_begin, piece.row_end}, has_own_bias(piece.layer),
                         pass.accumulate, first ? 0 : pass.options.reserved_sms);
  }
  tell_ready(pass.options, piece.begin, piece.end, stream);
}

}  // namespace amdahl
