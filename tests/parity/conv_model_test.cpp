// Convolutional models: sizes of the presets, running statistics in training and in evaluation.
#include <gtest/gtest.h>

#include "model/model.h"
#include "reference_conv.h"
#include "sequence_models.h"

namespace amdahl::test {
namespace {

using reference::Values;

Values in_double(const std::vector<float>& values) { return {values.begin(), values.end()}; }

TEST(ConvModels, PresetsHaveThePublishedNumberOfParameters) {
  EXPECT_EQ(find_model_preset("resnet18").num_parameters(), 11'173'962);
  EXPECT_EQ(find_model_preset("resnet34").num_parameters(), 21'282'122);
  EXPECT_EQ(find_model_preset("resnet50").num_parameters(), 25'557'032);
  EXPECT_EQ(find_model_preset("resnet152").num_parameters(), 60'192'808);
}

/// A model on one virtual device, and copies from its memory.
class ConvModel : public ::testing::Test {
 protected:
  void make(const ModelSpec& spec, int64_t rows) {
    spec_ = spec, rows_ = rows;
    data_ = random_data(spec, rows, 3);
    ModelOptions options;
    options.max_rows = rows;
    model_ = std::make_unique<Model>(spec, *job_.devices[0], *job_.ops[0], options);
    model_->initialise(*stream_, deadline());
  }
  void forward(bool training) {
    BatchView batch;
    batch.features = data_.features.data(), batch.targets = data_.targets.data();
    batch.rows = batch.global_rows = rows_;
    model_->forward(*stream_, batch, training);
  }
  std::vector<float> copy(const float* from, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count));
    job_.devices[0]->copy_out(*stream_, values.data(), from, values.size() * sizeof(float));
    stream_->synchronize(deadline());
    return values;
  }
  std::vector<float> outputs() { return copy(model_->outputs(), rows_ * spec_.output_width()); }
  static Deadline deadline() { return Deadline::after_seconds(60); }

  JobDevices job_ = cpu_job_devices(1);
  std::unique_ptr<Stream> stream_ = job_.devices[0]->make_stream("compute");
  ModelSpec spec_;
  int64_t rows_ = 0;
  JobData data_;
  std::unique_ptr<Model> model_;
};

TEST_F(ConvModel, BuffersAreNamedAndStartAtMeanZeroAndVarianceOne) {
  make(small_resnet(), 2);
  std::vector<std::string> names;
  for (int run = 0; run < 2; ++run) {  // initialise resets what training changed
    names.clear();
    for (const NamedBuffer& buffer : model_->buffers()) {
      names.push_back(buffer.name);
      const bool variance = buffer.name.ends_with("variance");
      EXPECT_EQ(copy(buffer.data, buffer.count), std::vector<float>(static_cast<size_t>(buffer.count), variance));
    }
    forward(true);
    model_->initialise(*stream_, deadline());
  }
  const std::vector<std::string> wanted{
      "layers.0.norm.running_mean",          "layers.0.norm.running_variance",
      "layers.1.norm1.running_mean",         "layers.1.norm1.running_variance",
      "layers.1.norm2.running_mean",         "layers.1.norm2.running_variance",
      "layers.2.norm1.running_mean",         "layers.2.norm1.running_variance",
      "layers.2.norm2.running_mean",         "layers.2.norm2.running_variance",
      "layers.2.shortcut_norm.running_mean", "layers.2.shortcut_norm.running_variance"};
  EXPECT_EQ(names, wanted);
}

TEST_F(ConvModel, EvaluationUsesTheRunningStatisticsAndKeepsThem) {
  LayerSpec first = layer_of(LayerKind::conv, 5);
  first.kernel = 5, first.stride = 2;
  make({"conv",
        7 * 6 * 2,
        {first, layer_of(LayerKind::average_pool), {3, true, Activation::none, 0.0}},
        LossKind::softmax_cross_entropy,
        {7, 6, 2}},
       3);
  for (int step = 0; step < 3; ++step) forward(true);
  const std::vector<float> trained = outputs();
  forward(false);
  const std::vector<float> evaluated = outputs();
  forward(false);
  EXPECT_EQ(outputs(), evaluated);

  const ParameterLayout& layout = model_->layout();
  const auto value = [&](size_t layer, size_t tensor) {
    const TensorSlice& slice = layout.layers[layer].tensors[tensor];
    return in_double(copy(model_->params() + slice.begin, slice.spec.num_parameters()));
  };
  const reference::ConvSizes sizes{3, 7, 6, 2, 5, 5, 2, 2};
  const Values c = reference::conv(sizes, in_double(data_.features), value(0, 0));
  const reference::ChannelMoments batch = reference::channel_moments(c, 5);
  const auto head = [&](const reference::ChannelMoments& moments) {
    const Values y = reference::normalise_channels(c, moments, value(0, 1), value(0, 2), {}, true);
    const Values pooled = reference::average_pool(y, 3, sizes.out_height() * sizes.out_width(), 5);
    return reference::add_bias(reference::matmul(pooled, value(2, 0), 3, 3, 5, false, true), value(2, 1));
  };
  const auto expect_near = [](const std::vector<float>& ours, const Values& wanted) {
    ASSERT_EQ(ours.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(ours[i], wanted[i], 2e-6) << i;
  };
  expect_near(trained, head(batch));
  // After three steps on one batch: 1 - 0.9^3 of its statistics, the variance unbiased.
  const double count = 3.0 * 4 * 3, weight = 1 - 0.9 * 0.9 * 0.9;
  reference::ChannelMoments running = batch;
  for (size_t i = 0; i < 5; ++i) {
    running.mean[i] *= weight;
    running.variance[i] = running.variance[i] * count / (count - 1) * weight + (1 - weight);
  }
  expect_near(evaluated, head(running));
  const std::vector<NamedBuffer> buffers = model_->buffers();
  expect_near(copy(buffers[0].data, 5), running.mean);
  expect_near(copy(buffers[1].data, 5), running.variance);
}

/// Gradients of a model divided at the layers `ends`, in the order of one device's layout.
std::vector<float> gradients_of_stages(const ModelSpec& spec, MathMode math, const std::vector<size_t>& ends) {
  constexpr int64_t kRows = 12;
  const JobData data = random_data(spec, kRows, 3);
  const Deadline deadline = Deadline::after_seconds(60);
  JobDevices job = cpu_job_devices(1, math);
  Device& device = *job.devices[0];
  const auto stream = device.make_stream("compute");
  std::vector<std::unique_ptr<Model>> stages;
  std::vector<BatchView> batches;
  for (size_t first = 0; const size_t end : ends) {
    ModelOptions options;
    options.max_rows = kRows, options.layers = {first, end};
    stages.push_back(std::make_unique<Model>(spec, device, *job.ops[0], options));
    stages.back()->initialise(*stream, deadline);
    BatchView batch;
    batch.features = batches.empty() ? data.features.data() : stages[stages.size() - 2]->outputs();
    batch.targets = data.targets.data(), batch.rows = batch.global_rows = kRows;
    batches.push_back(batch);
    stages.back()->forward(*stream, batch, true);
    first = end;
  }
  stages.back()->loss(*stream, batches.back(), false);
  std::vector<float> all;
  for (size_t i = stages.size(); i-- > 0;) {
    Model& stage = *stages[i];
    if (i + 1 < stages.size())
      device.copy_within(*stream, stage.output_gradient(), stages[i + 1]->input_gradient(),
                         static_cast<size_t>(stage.output_floats(kRows)) * sizeof(float));
    stage.backward(*stream, batches[i], false, {});
    std::vector<float> own(static_cast<size_t>(stage.layout().num_floats));
    device.copy_out(*stream, own.data(), stage.grads(), own.size() * sizeof(float));
    stream->synchronize(deadline);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

// Images are in the compute type within a stage and f32 between stages: the gradients differ by roundings alone.
TEST(ConvStages, GiveTheGradientsOfOneDevice) {
  for (const ModelSpec& model : {small_resnet(), small_bottleneck_resnet()})
    for (const auto& [math, limit] : {std::pair{MathMode::fp32, 1e-5}, {MathMode::fp16, 0.03}}) {
      const size_t layers = model.layers.size();
      const std::vector<float> wanted = gradients_of_stages(model, math, {layers});
      for (const std::vector<size_t>& ends :
           {std::vector<size_t>{1, layers}, {2, layers}, {3, layers}, {1, 2, 3, layers}}) {
        const std::vector<float> found = gradients_of_stages(model, math, ends);
        ASSERT_EQ(found.size(), wanted.size());
        double difference = 0, norm = 0;
        for (size_t i = 0; i < wanted.size(); ++i) {
          const double d = static_cast<double>(found[i]) - static_cast<double>(wanted[i]);
          difference += d * d, norm += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
        }
        EXPECT_LT(std::sqrt(difference / norm), limit)
            << model.name << ::testing::PrintToString(ends) << to_string(math);
      }
    }
}

}  // namespace
}  // namespace amdahl::test
