// Models of sequence and image layers on the CPU against float64: loss and every gradient, and the float64 reference
// itself against central differences.
#include <gtest/gtest.h>

#include "reference_model.h"
#include "sequence_models.h"

namespace amdahl::test {
namespace {

class SequenceModels : public ::testing::TestWithParam<SmallModel> {};

std::vector<double> drawn_parameters(const ModelSpec& spec) {
  const ParameterLayout layout = make_layout(spec);
  const std::vector<float> initial = initial_parameters(spec, layout, 42);
  std::vector<double> values(initial.begin(), initial.end());
  return values;
}

/// The mean over micro-batches of equal size: batch normalisation makes it depend on their number.
ReferenceModel::Result reference_of(const ModelSpec& spec, const JobData& data, int64_t rows, int64_t micro_batches) {
  const auto part_of = [&](const std::vector<float>& values, int64_t part) {
    const auto size = static_cast<std::ptrdiff_t>(values.size()) / micro_batches;
    return std::vector<float>(values.begin() + part * size, values.begin() + (part + 1) * size);
  };
  ReferenceModel::Result mean;
  const double share = 1.0 / static_cast<double>(micro_batches);
  for (int64_t part = 0; part < micro_batches; ++part) {
    const auto result = ReferenceModel(spec).run(drawn_parameters(spec), part_of(data.features, part),
                                                 part_of(data.targets, part), rows / micro_batches);
    mean.gradients.resize(result.gradients.size());
    mean.loss += share * result.loss;
    for (size_t i = 0; i < result.gradients.size(); ++i) mean.gradients[i] += share * result.gradients[i];
  }
  return mean;
}

TEST_P(SequenceModels, ReferenceEqualsCentralDifferences) {
  const ModelSpec spec = GetParam().spec;
  constexpr int64_t kRows = 3;
  const JobData data = random_data(spec, kRows, 5);
  const ReferenceModel reference(spec);
  std::vector<double> parameters = drawn_parameters(spec);
  // Larger than initial weights, so that attention is not nearly uniform and no gradient is nearly zero.
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i] += 0.3 * std::sin(static_cast<double>(i));
  const auto result = reference.run(parameters, data.features, data.targets, kRows);
  constexpr double kStep = 1e-5;
  const ParameterLayout layout = make_layout(spec);
  for (size_t l = 0; l < layout.layers.size(); ++l)
    for (const TensorSlice& tensor : layout.layers[l].tensors)
      for (int64_t k = 0; k < tensor.spec.num_parameters(); k += 1 + tensor.spec.num_parameters() / 7) {
        const auto i = static_cast<size_t>(tensor.begin + k);
        const double kept = parameters[i];
        parameters[i] = kept + kStep;
        const double above = reference.run(parameters, data.features, data.targets, kRows).loss;
        parameters[i] = kept - kStep;
        const double below = reference.run(parameters, data.features, data.targets, kRows).loss;
        parameters[i] = kept;
        EXPECT_NEAR((above - below) / (2 * kStep), result.gradients[i], 1e-7)
            << "layer " << l << " " << tensor.spec.name << " element " << k;
      }
}

TEST_P(SequenceModels, LossAndGradientsEqualFloat64) {
  const ModelSpec spec = GetParam().spec;
  constexpr int64_t kRows = 6;
  const JobData data = random_data(spec, kRows, 7);
  for (const int64_t accumulate : {1, 2}) {
    TrainerOptions options;
    options.model = spec;
    options.keep_gradients = true;
    options.plan.global_batch = kRows;
    options.plan.accumulate = accumulate;
    JobDevices devices = cpu_job_devices(1);
    const JobResult job = run_job(devices, options, data, 1);
    const auto expected = reference_of(spec, data, kRows, accumulate);
    EXPECT_NEAR(job.losses[0], expected.loss, 2e-6 * std::max(1.0, expected.loss));
    double norm = 0;
    for (const double value : expected.gradients) norm = std::max(norm, std::abs(value));
    ASSERT_EQ(job.first_gradients.size(), expected.gradients.size());
    const ParameterLayout layout = make_layout(spec);
    for (size_t l = 0; l < layout.layers.size(); ++l)
      for (const TensorSlice& tensor : layout.layers[l].tensors) {
        double largest = 0;
        for (int64_t k = 0; k < tensor.spec.num_parameters(); ++k) {
          const auto i = static_cast<size_t>(tensor.begin + k);
          largest = std::max(largest, std::abs(job.first_gradients[i] - expected.gradients[i]));
        }
        EXPECT_LT(largest, 2e-5 * norm) << "layer " << l << " " << tensor.spec.name << ", accumulate " << accumulate;
      }
  }
}

TEST_P(SequenceModels, TwoDevicesEqualOneAndRerunsAreBitEqual) {
  const ModelSpec spec = GetParam().spec;
  const JobData data = random_data(spec, 8, 9);
  TrainerOptions options;
  options.model = spec;
  options.keep_gradients = true;
  options.plan.global_batch = 8;
  JobDevices one = cpu_job_devices(1);
  const JobResult whole = run_job(one, options, data, 3);
  // Two devices that share the rows normalise as one that accumulates two micro-batches.
  options.plan.accumulate = 2;
  const JobResult halves = run_job(one, options, data, 3);
  options.plan.accumulate = 1;
  for (const char* strategy : {"ddp", "zero1", "dp", "replicated"}) {
    const JobResult& expected = std::string(strategy) == "replicated" ? whole : halves;
    options.plan.strategy = strategy;
    options.plan.mesh.dp = 2;
    options.plan.bucket_bytes = 2048;
    JobDevices two = cpu_job_devices(2);
    const JobResult job = run_job(two, options, data, 3), again = run_job(two, options, data, 3);
    EXPECT_EQ(job.params, again.params) << strategy;
    EXPECT_NEAR(job.losses.back(), expected.losses.back(), 1e-5) << strategy;
    double norm = 0, largest = 0;
    for (const float value : expected.first_gradients) norm = std::max(norm, std::abs(static_cast<double>(value)));
    for (size_t i = 0; i < expected.first_gradients.size(); ++i)
      largest = std::max(largest, std::abs(static_cast<double>(job.first_gradients[i] - expected.first_gradients[i])));
    EXPECT_LT(largest, 1e-5 * norm) << strategy;
  }
}

// Activations that are computed again are the same bits, so the trained weights are too.
TEST_P(SequenceModels, RecomputationChangesNoBit) {
  const ModelSpec spec = GetParam().spec;
  const JobData data = random_data(spec, 6, 13);
  TrainerOptions options;
  options.model = spec;
  options.plan.global_batch = 6;
  options.plan.accumulate = 2;
  std::vector<std::vector<float>> kept;
  for (const Recompute recompute : {Recompute::none, Recompute::block, Recompute::selective}) {
    options.plan.recompute = static_cast<int64_t>(recompute);
    JobDevices devices = cpu_job_devices(1);
    const JobResult job = run_job(devices, options, data, 3);
    if (recompute == Recompute::none) kept = job.params;
    EXPECT_EQ(job.params, kept) << options.plan.recompute;
  }
}

// A model with enough freedom must be able to learn a few rows by heart.
TEST_P(SequenceModels, OverfitsOneBatch) {
  const ModelSpec spec = GetParam().spec;
  const JobData data = random_data(spec, 4, 11);
  TrainerOptions options;
  options.model = spec;
  options.plan.global_batch = 4;
  options.hyper.learning_rate = 0.01F;
  JobDevices devices = cpu_job_devices(1);
  const JobResult job = run_job(devices, options, data, 400);
  EXPECT_LT(job.losses.back(), 0.05 * job.losses.front());
}

std::string model_name(const ::testing::TestParamInfo<SmallModel>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Cpu, SequenceModels, ::testing::ValuesIn(small_sequence_models()), model_name);
INSTANTIATE_TEST_SUITE_P(Bottlenecks, SequenceModels,
                         ::testing::Values(SmallModel{"bottleneck", small_bottleneck_resnet()}), model_name);

}  // namespace
}  // namespace amdahl::test
