// Rows of several documents on the CPU: loss and gradients are those of the documents apart, in float64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "reference_model.h"
#include "sequence_models.h"

namespace amdahl::test {
namespace {

constexpr int64_t kPackedRows = 4, kEnd = 3;

/// A row is cut from tokens with documents of these lengths, each of which begins with kEnd.
JobData documents_data(const ModelSpec& model, const std::vector<int64_t>& lengths) {
  std::mt19937_64 random(17);
  std::vector<float> tokens;
  for (size_t document = 0; static_cast<int64_t>(tokens.size()) <= kPackedRows * model.input_width; ++document) {
    tokens.push_back(static_cast<float>(kEnd));
    for (int64_t t = 1; t < lengths[document % lengths.size()]; ++t) {
      const auto token = static_cast<int64_t>(random() % static_cast<uint64_t>(model.vocabulary() - 1));
      tokens.push_back(static_cast<float>(token < kEnd ? token : token + 1));
    }
  }
  const auto count = static_cast<std::ptrdiff_t>(kPackedRows * model.input_width);
  return {{tokens.begin(), tokens.begin() + count}, {tokens.begin() + 1, tokens.begin() + 1 + count}};
}

/// As a training begins with.
std::vector<double> parameters_of(const ModelSpec& spec) {
  const std::vector<float> initial = initial_parameters(spec, make_layout(spec), 42);
  return {initial.begin(), initial.end()};
}

/// The mean over all tokens, each document computed as a row of its own.
ReferenceModel::Result apart(const ModelSpec& packed, const JobData& data) {
  const auto tokens = static_cast<int64_t>(data.features.size()), steps = packed.input_width;
  ReferenceModel::Result mean;
  for (int64_t first = 0, end = 0; first < tokens; first = end) {
    for (end = first + 1; end % steps != 0 && data.features[static_cast<size_t>(end)] != kEnd;) ++end;
    ModelSpec alone = packed;
    alone.layers.front().end_token = -1;
    alone.input_width = end - first;
    alone.input_shape = {end - first};
    const auto part = [&](const std::vector<float>& values) {
      return std::vector<float>(values.begin() + first, values.begin() + end);
    };
    const auto one = ReferenceModel(alone).run(parameters_of(packed), part(data.features), part(data.targets), 1);
    const double share = static_cast<double>(end - first) / static_cast<double>(tokens);
    mean.loss += share * one.loss;
    mean.gradients.resize(one.gradients.size());
    for (size_t i = 0; i < one.gradients.size(); ++i) mean.gradients[i] += share * one.gradients[i];
  }
  return mean;
}

JobResult packed_run(const ModelSpec& spec, const JobData& data, MathMode math, int64_t accumulate) {
  TrainerOptions options;
  options.model = spec;
  options.keep_gradients = true;
  options.plan.global_batch = kPackedRows;
  options.plan.accumulate = accumulate;
  JobDevices devices = cpu_job_devices(1, math);
  return run_job(devices, options, data, 1);
}

double relative(const std::vector<float>& found, float scale, const std::vector<double>& wanted) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    difference += std::pow(static_cast<double>(found[i] / scale) - wanted[i], 2);
    norm += wanted[i] * wanted[i];
  }
  return std::sqrt(difference / norm);
}

class Documents : public ::testing::TestWithParam<SmallModel> {};

/// Lengths that fit no row: of one token, of a whole row, and of more than two.
const std::vector<std::vector<int64_t>> kLengths{{3, 1, 5, 2, 1, 1, 8}, {23, 1, 4}, {9}, {1}, {100}};

TEST_P(Documents, EqualDocumentsApart) {
  const ModelSpec& spec = GetParam().spec;
  for (const std::vector<int64_t>& lengths : kLengths) {
    const JobData data = documents_data(spec, lengths);
    const auto wanted = apart(spec, data);
    for (const int64_t accumulate : {1, 2}) {
      const JobResult found = packed_run(spec, data, MathMode::fp32, accumulate);
      EXPECT_NEAR(found.losses[0], wanted.loss, 2e-6 * wanted.loss) << lengths[0];
      ASSERT_EQ(found.first_gradients.size(), wanted.gradients.size());
      EXPECT_LT(relative(found.first_gradients, 1, wanted.gradients), 2e-6) << lengths[0];
    }
  }
}

TEST_P(Documents, EqualDocumentsApartInHalfPrecision) {
  const ModelSpec& spec = GetParam().spec;
  const JobData data = documents_data(spec, kLengths[0]);
  const auto wanted = apart(spec, data);
  const JobResult found = packed_run(spec, data, MathMode::fp16, 1);
  EXPECT_NEAR(found.losses[0], wanted.loss, 2e-3 * wanted.loss);
  EXPECT_LT(relative(found.first_gradients, kFirstLossScale, wanted.gradients), 0.01);
}

// Without the end of documents the same rows have another loss: the tests above see it.
TEST_P(Documents, ChangeTheLoss) {
  ModelSpec spec = GetParam().spec;
  const JobData data = documents_data(spec, kLengths[0]);
  const double packed = packed_run(spec, data, MathMode::fp32, 1).losses[0];
  spec.layers.front().end_token = -1;
  EXPECT_GT(std::abs(packed_run(spec, data, MathMode::fp32, 1).losses[0] - packed), 1e-4 * packed);
}

std::vector<SmallModel> document_models() {
  std::vector<SmallModel> models = small_sequence_models();
  std::erase_if(models, [](const SmallModel& model) { return model.spec.layers.front().end_token < 0; });
  return models;
}

INSTANTIATE_TEST_SUITE_P(Cpu, Documents, ::testing::ValuesIn(document_models()),
                         [](const auto& model) { return model.param.name; });

}  // namespace
}  // namespace amdahl::test
