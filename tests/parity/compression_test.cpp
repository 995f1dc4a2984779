// Compression of gradients: what a message holds and what is left over add up exactly to what was given.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/small_floats.h"
#include "comm/world.h"
#include "ops/ops.h"
#include "plan/compressed_blocks.h"

namespace amdahl::test {
namespace {

/// One CPU virtual device, whose memory is the host's.
class CompressionOnCpu : public ::testing::TestWithParam<int64_t> {
 protected:
  void wait() { stream_->synchronize(Deadline::after_seconds(30)); }
  CompressionOps& ops() { return ops_->compression(); }

  std::vector<std::unique_ptr<Device>> devices_ = make_cpu_devices(1);
  std::unique_ptr<Ops> ops_ = make_cpu_ops(*devices_[0], {});
  std::unique_ptr<Stream> stream_ = devices_[0]->make_stream("test");
};

/// Normal values over many magnitudes, with zeros.
std::vector<float> spread_values(int64_t n, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<float> normal;
  std::uniform_int_distribution<int> exponent(-30, 10);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values)
    value = exponent(generator) == 0 ? 0.0f : std::ldexp(normal(generator), exponent(generator));
  return values;
}

struct Sent {
  std::vector<float> values, feedback, given;  // given: gradients + feedback before
};

TEST_P(CompressionOnCpu, Int8SendsAllButTheFeedbackExactly) {
  const int64_t n = GetParam();
  const std::vector<float> gradients = spread_values(n, 3), before = spread_values(n, 4);
  std::vector<float> feedback = before, values(gradients.size());
  std::vector<uint8_t> message(static_cast<size_t>(int8_message_bytes(n)));
  ops().compress_int8(*stream_, {gradients.data(), feedback.data(), message.data(), n});
  ops().sum_int8(*stream_, {message.data(), int8_message_bytes(n), 1, values.data(), n});
  wait();
  for (int64_t block = 0; block < compressed_blocks(n); ++block) {
    const int64_t begin = block * kCompressedBlock, end = std::min(n, begin + kCompressedBlock);
    double most = 0;
    for (int64_t i = begin; i < end; ++i)
      most = std::max(most, std::abs(double{gradients[static_cast<size_t>(i)] + before[static_cast<size_t>(i)]}));
    for (int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i);
      const float given = gradients[at] + before[at];
      ASSERT_EQ(double{values[at]} + double{feedback[at]}, double{given}) << i;
      ASSERT_LE(std::abs(feedback[at]), most / 127 + 1e-38) << i;  // half a step of at most 2 / 127
    }
  }
}

TEST_P(CompressionOnCpu, TopkSendsTheLargestUnchanged) {
  const int64_t n = GetParam(), kept = kept_of_block(50'000);
  ASSERT_EQ(kept, 51);
  const std::vector<float> gradients = spread_values(n, 5), before = spread_values(n, 6);
  std::vector<float> feedback = before, values(gradients.size());
  std::vector<uint8_t> message(static_cast<size_t>(topk_message_bytes(n, 50'000)));
  ops().compress_topk(*stream_, {gradients.data(), feedback.data(), message.data(), n, kept});
  ops().sum_topk(*stream_, {message.data(), topk_message_bytes(n, 50'000), 1, values.data(), n, kept});
  wait();
  for (int64_t begin = 0; begin < n; begin += kCompressedBlock) {
    const int64_t end = std::min(n, begin + kCompressedBlock);
    float least_sent = std::numeric_limits<float>::infinity(), most_left = 0;
    int64_t sent = 0;
    for (auto at = static_cast<size_t>(begin); at < static_cast<size_t>(end); ++at) {
      const float given = gradients[at] + before[at];
      ASSERT_TRUE((values[at] == given && feedback[at] == 0) || (values[at] == 0 && feedback[at] == given)) << at;
      if (values[at] != 0) ++sent, least_sent = std::min(least_sent, std::abs(given));
      most_left = std::max(most_left, std::abs(feedback[at]));
    }
    EXPECT_EQ(sent, std::min(kept, end - begin));
    EXPECT_GE(least_sent, most_left);
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CompressionOnCpu, ::testing::Values(1, 64, 1000, 1024, 1088, 5000));

TEST_F(CompressionOnCpu, MessagesAreSummedInRankOrder) {
  constexpr int64_t kValues = 1500;
  constexpr int kRanks = 3;
  const auto bytes = static_cast<size_t>(int8_message_bytes(kValues));
  std::vector<uint8_t> messages(kRanks * bytes);
  std::vector<float> expected(kValues, 0.0f), sum(kValues), one(kValues);
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<float> gradients = spread_values(kValues, 10 + static_cast<uint64_t>(rank));
    std::vector<float> feedback(kValues, 0.0f);
    uint8_t* const message = messages.data() + static_cast<size_t>(rank) * bytes;
    ops().compress_int8(*stream_, {gradients.data(), feedback.data(), message, kValues});
    ops().sum_int8(*stream_, {message, int8_message_bytes(kValues), 1, one.data(), kValues});
    wait();
    for (size_t i = 0; i < expected.size(); ++i) expected[i] += one[i];
  }
  ops().sum_int8(*stream_, {messages.data(), int8_message_bytes(kValues), kRanks, sum.data(), kValues});
  wait();
  EXPECT_EQ(sum, expected);
}

TEST_F(CompressionOnCpu, ValuesThatAreNotFiniteAreNotHidden) {
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> gradients(200, 1.0f), feedback(200, 0.0f), values(200);
    gradients[7] = odd;
    std::vector<uint8_t> message(static_cast<size_t>(int8_message_bytes(200)));
    ops().compress_int8(*stream_, {gradients.data(), feedback.data(), message.data(), 200});
    ops().sum_int8(*stream_, {message.data(), int8_message_bytes(200), 1, values.data(), 200});
    wait();
    EXPECT_FALSE(std::isfinite(values[7]));
    EXPECT_EQ(feedback, std::vector<float>(200, 0.0f));
    message.resize(static_cast<size_t>(topk_message_bytes(200, 1000)));
    feedback.assign(200, 0.0f);
    ops().compress_topk(*stream_, {gradients.data(), feedback.data(), message.data(), 200, 1});
    ops().sum_topk(*stream_, {message.data(), topk_message_bytes(200, 1000), 1, values.data(), 200, 1});
    wait();
    EXPECT_FALSE(std::isfinite(values[7]));
    EXPECT_EQ(feedback[7], 0.0f);
  }
}

TEST_F(CompressionOnCpu, RoundingIsThatOfTheHost) {
  const std::vector<float> values = spread_values(777, 8);
  std::vector<uint16_t> rounded(values.size());
  std::vector<float> again(values.size());
  for (const DType type : {DType::bf16, DType::f16}) {
    ops().round(*stream_, {values.data(), DType::f32, rounded.data(), type, 777});
    ops().round(*stream_, {rounded.data(), type, again.data(), DType::f32, 777});
    wait();
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(again[i], type == DType::bf16 ? to_float(to_bfloat(values[i])) : to_float(to_half(values[i])));
  }
}

}  // namespace
}  // namespace amdahl::test
