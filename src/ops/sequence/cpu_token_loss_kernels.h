// The losses of tokens in cpu_sequence_kernels.cpp, for whole rows of logits and for shards of them.
#pragma once

#include <math.h>

#include "ops/cpu_vector.h"
#include "ops/sequence/sequence_ops.h"

namespace amdahl {
namespace {

constexpr int64_t kChunk = 512;  // elements that are summed in f32 before they are added in f64

/// The largest of row[0, count), -infinity for none.
inline float largest_in(const float* row, int64_t count) {
  const Lanes lowest = broadcast(-INFINITY);
  Lanes largest = lowest;
  for_each_vector(count, [&](int64_t i, auto n) { largest = larger(largest, only(load(row + i, n), lowest, n)); });
  return largest_of(largest);
}

/// The sum of exp(row - top) over [0, count); writes the terms to the row when `keep`.
inline double exp_sum(float* row, float top, int64_t count, bool keep) {
  double total = 0.0;
  for (int64_t first = 0; first < count; first += kChunk) {
    Lanes sum{};
    float* chunk = row + first;
    for_each_vector(count - first < kChunk ? count - first : kChunk, [&](int64_t i, auto n) {
      const Lanes e = only(exp_of(load(chunk + i, n) - top), Lanes{}, n);
      sum += e;
      if (keep) store(chunk + i, e, n);
    });
    total += static_cast<double>(sum_of(sum));
  }
  return total;
}

// p - 1 of the label is computed as minus the sum of the other classes, without cancellation where p is close to 1.
AMDAHL_KERNEL void token_loss(const TokenLoss& a) {
  const double scale = static_cast<double>(a.scale) * (a.gradient_scale ? static_cast<double>(*a.gradient_scale) : 1.0);
  double loss = 0.0;
  int64_t correct = 0;
  for (int64_t r = 0; r < a.rows; ++r) {
    float* row = static_cast<float*>(a.logits) + r * a.stride;
    const auto label = static_cast<int64_t>(a.labels[r]);
    const int64_t after = a.classes - label - 1;
    const float of_label = row[label], before = largest_in(row, label), behind = largest_in(row + label + 1, after);
    correct += of_label > before && of_label >= behind;
    const float other = before > behind ? before : behind, top = of_label > other ? of_label : other;
    const double others = exp_sum(row, top, label, a.gradient) + exp_sum(row + label + 1, top, after, a.gradient);
    const double sum = others + exp(static_cast<double>(of_label - top));
    loss += log(sum) + static_cast<double>(top) - static_cast<double>(of_label);
    if (!a.gradient) continue;
    const auto factor = static_cast<float>(scale / sum);
    for_each_vector(a.classes, [&](int64_t i, auto n) { store(row + i, load(row + i, n) * factor, n); });
    row[label] = static_cast<float>(-others / sum * scale);
    for (int64_t i = a.classes; i < a.stride; ++i) row[i] = 0.0f;
  }
  const auto scaled = static_cast<float>(loss * static_cast<double>(a.scale));
  a.stats[0] = a.accumulate ? a.stats[0] + scaled : scaled;
  a.stats[1] = (a.accumulate ? a.stats[1] : 0.0f) + static_cast<float>(correct);
}

AMDAHL_KERNEL void token_loss_parts(const TokenLossShard& a) {
  for (int64_t r = 0; r < a.rows; ++r) {
    float* row = static_cast<float*>(a.logits) + r * a.stride;
    float* part = a.parts + r * kShardLossFloats;
    const float top = largest_in(row, a.classes);
    int64_t at = 0;
    while (at + 1 < a.classes && row[at] != top) ++at;
    const int64_t label = static_cast<int64_t>(a.labels[r]) - a.first;
    part[0] = top;
    part[1] = static_cast<float>(a.first + at);
    part[2] = static_cast<float>(exp_sum(row, top, a.classes, false));
    part[3] = label >= 0 && label < a.classes ? row[label] : 0.0f;
  }
}

AMDAHL_KERNEL void token_loss_of_parts(const TokenLossShard& a) {
  double loss = 0.0;
  int64_t correct = 0;
  for (int64_t r = 0; r < a.rows; ++r) {
    const auto part = [&](int shard) { return a.parts + (shard * a.rows + r) * kShardLossFloats; };
    float top = part(0)[0], best = part(0)[1], of_label = 0.0f;
    for (int s = 1; s < a.shards; ++s)
      if (part(s)[0] > top) top = part(s)[0], best = part(s)[1];
    double sum = 0.0;
    for (int s = 0; s < a.shards; ++s) {
      sum += static_cast<double>(part(s)[2]) * exp(static_cast<double>(part(s)[0] - top));
      of_label += part(s)[3];  // zero but for one
    }
    correct += best == a.labels[r];
    loss += log(sum) + static_cast<double>(top) - static_cast<double>(of_label);
    float* row = static_cast<float*>(a.logits) + r * a.stride;
    const int64_t label = static_cast<int64_t>(a.labels[r]) - a.first;
    const bool is_here = label >= 0 && label < a.classes;
    exp_sum(row, top, a.classes, true);
    const double others = sum - exp(static_cast<double>(of_label - top));
    const auto factor = static_cast<float>(static_cast<double>(a.scale) / sum);
    for_each_vector(a.classes, [&](int64_t i, auto n) { store(row + i, load(row + i, n) * factor, n); });
    if (is_here) row[label] = static_cast<float>(-others / sum * static_cast<double>(a.scale));
    for (int64_t i = a.classes; i < a.stride; ++i) row[i] = 0.0f;
  }
  const auto scaled = static_cast<float>(loss * static_cast<double>(a.scale));
  a.stats[0] = a.accumulate ? a.stats[0] + scaled : scaled;
  a.stats[1] = (a.accumulate ? a.stats[1] : 0.0f) + static_cast<float>(correct);
}

}  // namespace
}  // namespace amdahl
