// Gradients that are summed bucket by bucket while backward goes on, and updates of buckets as they arrive. Unit: us.
// Source: parallel/data/bucketed_sync.cpp; the order of gradients is that of gradient_order.
#include <algorithm>
#include <cmath>

#include "planner/terms.h"

namespace amdahl {
namespace {

/// A part of a layer's gradients, complete so long after backward began.
struct Piece {
  double parameters = 0, ready_us = 0;
};

double parts_of(const GradientTime& layer, const GradientBuckets& buckets) {
  return layer.by_pieces && !buckets.by_layer ? std::ceil(layer.parameters / buckets.parameters) : 1;
}

// In the order in which gradients lie in memory: from the last layer to the first.
std::vector<Piece> pieces_of(const std::vector<GradientTime>& layers, const GradientBuckets& buckets) {
  std::vector<Piece> pieces;
  double now = 0;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
    for (int i = 0; i < layer->repeats; ++i) {
      now += layer->backward_us;
      const double parts = parts_of(*layer, buckets);
      for (double part = 1; part <= parts; ++part)
        pieces.push_back({layer->parameters / parts, now - layer->weight_us * (1 - part / parts)});
    }
  if (!buckets.weights_last) return pieces;
  // Gradients of inputs come first, then those of weights, of the largest layers first.
  std::vector<size_t> order;
  double weights = 0;
  size_t next = 0;
  std::vector<double> spent(pieces.size());
  std::vector<double> size(pieces.size());
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
    for (int i = 0; i < layer->repeats; ++i) {
      const double parts = parts_of(*layer, buckets);
      for (double part = 1; part <= parts; ++part, ++next) {
        spent[next] = layer->weight_us / parts, size[next] = layer->parameters;
        weights += spent[next];
        order.push_back(next);
      }
    }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return size[a] > size[b]; });
  now -= weights;
  for (const size_t i : order) now += spent[i], pieces[i].ready_us = now;
  return pieces;
}

}  // namespace

Overlap overlap_of(const std::vector<GradientTime>& layers, const GradientBuckets& buckets, const Rates& rates) {
  double backward = 0;
  for (const GradientTime& layer : layers) backward += layer.backward_us * layer.repeats;
  std::vector<Piece> full;
  for (const Piece& piece : pieces_of(layers, buckets)) {
    const bool fits = !full.empty() && !buckets.by_layer &&
                      (full.back().parameters <= 0 || full.back().parameters + piece.parameters <= buckets.parameters);
    if (!fits) full.emplace_back();
    full.back().parameters += piece.parameters;
    full.back().ready_us = std::max(full.back().ready_us, piece.ready_us);
  }
  std::stable_sort(full.begin(), full.end(), [](const Piece& a, const Piece& b) { return a.ready_us < b.ready_us; });
  double sent = 0, updated = backward, communication = 0, updates = 0;
  for (const Piece& bucket : full) {
    const double us = buckets.all_reduce_us(bucket.parameters);
    const double update = buckets.update_us_per_parameter * bucket.parameters;
    sent = std::max(sent, bucket.ready_us) + us;
    updated = std::max(updated, sent) + (buckets.updates_within ? 0 : update);
    communication += us, updates += update;
  }
  const double exposed = std::max(0.0, updated - backward - updates);
  return {exposed, rates.interference * std::max(0.0, communication - exposed)};
}

}  // namespace amdahl
