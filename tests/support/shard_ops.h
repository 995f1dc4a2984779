// Operations on the shards of a vocabulary, of any backend: the parts of all shards together against float64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "device/device.h"
#include "ops/ops.h"
#include "reference_sequence.h"

namespace amdahl::test {

/// Runs operations of f32 on one device; a shard stands for a rank.
class ShardOps {
 public:
  ShardOps(Device& device, Ops& ops, Stream& stream) : device_(device), ops_(ops), stream_(stream) {}

  std::unique_ptr<Buffer> upload(const std::vector<float>& values) {
    auto buffer = device_.allocate(values.size() * sizeof(float));
    device_.copy_in(stream_, buffer->data(), values.data(), buffer->bytes());
    finish();
    return buffer;
  }
  std::vector<float> download(Buffer& buffer) {
    std::vector<float> values(buffer.bytes() / sizeof(float));
    device_.copy_out(stream_, values.data(), buffer.data(), buffer.bytes());
    finish();
    return values;
  }
  std::vector<float> random(int64_t count) {
    std::normal_distribution<float> normal(0, 2);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(generator_);
    return values;
  }
  std::vector<float> labels(int64_t count, int64_t classes) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = static_cast<float>(generator_() % static_cast<uint64_t>(classes));
    return values;
  }

  /// Loss, correct rows and gradients of `rows` rows, whose classes are cut at `cuts` (ascending, the last one is the
  /// number of classes); each shard's rows are longer by `padding`.
  void expect_loss(int64_t rows, const std::vector<int64_t>& cuts, int64_t padding) {
    const int64_t classes = cuts.back();
    const std::vector<float> logits = random(rows * classes), label = labels(rows, classes);
    const auto shards = static_cast<int>(cuts.size());
    const auto device_labels = upload(label);
    std::vector<std::unique_ptr<Buffer>> held;
    const auto parts = upload(std::vector<float>(static_cast<size_t>(shards * rows * kShardLossFloats)));
    const auto stats = upload({0.5f, 2.0f});
    std::vector<TokenLossShard> calls;
    for (int s = 0; s < shards; ++s) {
      const int64_t first = s == 0 ? 0 : cuts[static_cast<size_t>(s) - 1], count = cuts[static_cast<size_t>(s)] - first;
      std::vector<float> own(static_cast<size_t>(rows * (count + padding)), 7.0f);
      for (int64_t r = 0; r < rows; ++r)
        std::copy_n(logits.begin() + r * classes + first, count, own.begin() + r * (count + padding));
      held.push_back(upload(own));
      calls.push_back({.logits = held.back()->data(),
                       .labels = device_labels->as<float>(),
                       .parts = parts->as<float>() + s * rows * kShardLossFloats,
                       .rows = rows,
                       .first = first,
                       .classes = count,
                       .stride = count + padding});
      ops_.sequence().token_loss_parts(stream_, calls.back());
    }
    const double scale = 1.0 / static_cast<double>(rows);
    for (int s = 0; s < shards; ++s) {
      TokenLossShard& call = calls[static_cast<size_t>(s)];
      call.parts = parts->as<float>();
      call.shards = shards;
      call.stats = stats->as<float>();
      call.scale = static_cast<float>(scale);
      call.accumulate = s == 0;  // the others set it, to the same
      ops_.sequence().token_loss_of_parts(stream_, call);
      if (s == 0) first_stats_ = download(*stats);
    }
    check_loss(logits, label, rows, calls, held, scale);
  }

  /// Vectors and gradients of tokens of which each shard has some.
  void expect_embedding(int64_t rows, int64_t steps, int64_t width, const std::vector<int64_t>& cuts) {
    const int64_t vocabulary = cuts.back();
    const std::vector<float> tokens = labels(rows * steps, vocabulary), table = random(vocabulary * width),
                             d_out = random(rows * steps * width);
    const auto device_tokens = upload(tokens), device_d_out = upload(d_out);
    std::vector<double> sum(static_cast<size_t>(rows * steps * width), 0.0);
    std::vector<float> gradients;
    for (size_t s = 0; s < cuts.size(); ++s) {
      const int64_t first = s == 0 ? 0 : cuts[s - 1], count = cuts[s] - first;
      const auto own = upload({table.begin() + first * width, table.begin() + cuts[s] * width});
      const auto d_own = upload(std::vector<float>(static_cast<size_t>(count * width)));
      const auto out = upload(std::vector<float>(sum.size(), NAN));
      ops_.sequence().embedding_forward(stream_, {.tokens = device_tokens->as<float>(),
                                                  .table = own->as<float>(),
                                                  .positions = nullptr,
                                                  .common = nullptr,
                                                  .out = out->as<float>(),
                                                  .rows = rows,
                                                  .steps = steps,
                                                  .width = width,
                                                  .vocabulary = count,
                                                  .first = first,
                                                  .is_shard = true});
      ops_.sequence().embedding_backward(stream_, {.tokens = device_tokens->as<float>(),
                                                   .d_out = device_d_out->as<float>(),
                                                   .d_table = d_own->as<float>(),
                                                   .d_positions = nullptr,
                                                   .d_common = nullptr,
                                                   .rows = rows,
                                                   .steps = steps,
                                                   .width = width,
                                                   .vocabulary = count,
                                                   .accumulate = false,
                                                   .first = first,
                                                   .is_shard = true});
      const std::vector<float> values = download(*out), part = download(*d_own);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(values[i]);
      gradients.insert(gradients.end(), part.begin(), part.end());
    }
    std::vector<double> wanted(table.size(), 0.0);
    for (size_t i = 0; i < sum.size(); ++i) {
      const auto row = static_cast<int64_t>(tokens[i / static_cast<size_t>(width)]);
      const auto at = static_cast<size_t>(row * width) + i % static_cast<size_t>(width);
      EXPECT_EQ(sum[i], static_cast<double>(table[at]));
      wanted[at] += static_cast<double>(d_out[i]);
    }
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(gradients[i], wanted[i], 1e-4) << i;
  }

 private:
  void finish() { stream_.synchronize(Deadline::after_seconds(60)); }

  void check_loss(const std::vector<float>& logits, const std::vector<float>& label, int64_t rows,
                  const std::vector<TokenLossShard>& calls, const std::vector<std::unique_ptr<Buffer>>& held,
                  double scale) {
    const int64_t classes = static_cast<int64_t>(logits.size()) / rows;
    std::vector<std::vector<float>> gradients;
    for (const auto& buffer : held) gradients.push_back(download(*buffer));
    double loss = 0, correct = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = logits.data() + r * classes;
      const float top = *std::max_element(row, row + classes);
      double sum = 0;
      for (int64_t i = 0; i < classes; ++i) sum += std::exp(static_cast<double>(row[i]) - static_cast<double>(top));
      const auto of = static_cast<int64_t>(label[static_cast<size_t>(r)]);
      loss += std::log(sum) + static_cast<double>(top) - static_cast<double>(row[of]);
      correct += std::max_element(row, row + classes) - row == of;
      for (size_t s = 0; s < calls.size(); ++s)
        for (int64_t i = 0; i < calls[s].stride; ++i) {
          const int64_t at = calls[s].first + i;
          double wanted = 0;
          if (i < calls[s].classes)
            wanted = scale * (std::exp(static_cast<double>(row[at]) - static_cast<double>(top)) / sum - (at == of));
          EXPECT_NEAR(gradients[s][static_cast<size_t>(r * calls[s].stride + i)], wanted, 2e-6 * scale)
              << "row " << r << ", class " << at;
        }
    }
    EXPECT_NEAR(first_stats_[0], 0.5 + loss * scale, 2e-6 * std::max(1.0, loss * scale));
    EXPECT_EQ(static_cast<double>(first_stats_[1]), 2.0 + correct);
  }

  Device& device_;
  Ops& ops_;
  Stream& stream_;
  std::vector<float> first_stats_;
  std::mt19937 generator_{5};
};

inline void expect_shards(Device& device, Ops& ops, Stream& stream) {
  ShardOps shards(device, ops, stream);
  shards.expect_loss(1, {2}, 0);
  shards.expect_loss(5, {8, 13}, 3);
  shards.expect_loss(17, {1, 2, 40, 41}, 7);
  shards.expect_loss(9, {5000, 12000}, 88);
  shards.expect_embedding(1, 1, 1, {1, 2});
  shards.expect_embedding(3, 7, 5, {4, 9, 11});
  shards.expect_embedding(4, 33, 64, {128, 300});
}

}  // namespace amdahl::test
