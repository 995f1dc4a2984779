// Dense layers divided among tensor-parallel ranks: loss, gradients and weights of one device, and the declared
// traffic.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "parallel/tensor/dense.h"
#include "reference_mlp.h"
#include "small_job.h"

namespace amdahl::test {
namespace {

constexpr int kTensorSteps = 3;
constexpr int64_t kTensorRows = 29;

/// `layers` layers of odd widths with dropout, some without bias.
ModelSpec model_of(LossKind loss, int layers) {
  const std::vector<int64_t> widths{37, 22, 41, 18, 30};
  ModelSpec model;
  model.name = "odd";
  model.input_width = 11;
  for (int i = 0; i + 1 < layers; ++i)
    model.layers.push_back({widths[static_cast<size_t>(i)], i != 1, Activation::relu, i % 2 == 0 ? 0.25 : 0.5});
  model.layers.push_back({6, true, Activation::none, 0.0});
  model.loss = loss;
  return model;
}

/// The whole arrays, put together from the ranks' shards, in the layout of one device.
struct Outcome {
  std::vector<float> gradients, parameters;  // of the first step; after the last one
  std::vector<std::vector<double>> losses;   // by rank and step
  std::vector<size_t> comm_bytes;            // by rank, one step
};

void put_shards(std::vector<float>& whole, const ParameterLayout& all, const std::vector<float>& own,
                const ParameterLayout& layout) {
  for (size_t i = 0; i < layout.layers.size(); ++i) {
    const LayerSlice &from = layout.layers[i], &to = all.layers[i];
    const WeightShard& shard = from.shard;
    for (int64_t r = 0; r < shard.rows(); ++r) {
      for (int64_t c = 0; c < shard.columns(); ++c)
        whole[static_cast<size_t>(to.weight + (shard.row_begin + r) * to.shard.columns() + shard.column_begin + c)] =
            own[static_cast<size_t>(from.weight + r * shard.columns() + c)];
      if (from.bias >= 0)
        whole[static_cast<size_t>(to.bias + shard.row_begin + r)] = own[static_cast<size_t>(from.bias + r)];
    }
  }
}

Outcome run(const ModelSpec& spec, int ranks, int micro_batches, const JobData& data) {
  JobDevices job = cpu_job_devices(ranks);
  Outcome outcome;
  const ParameterLayout all = make_layout(spec);
  outcome.gradients.resize(static_cast<size_t>(all.num_floats));
  outcome.parameters = outcome.gradients;
  outcome.losses.resize(static_cast<size_t>(ranks));
  outcome.comm_bytes.resize(static_cast<size_t>(ranks));
  std::mutex lock;
  run_rank_threads(
      ranks,
      [&](int rank) {
        const auto r = static_cast<size_t>(rank);
        Device& device = *job.devices[r];
        device.bind_thread();
        const auto stream = device.make_stream("compute");
        const auto wait = [&] { stream->synchronize(Deadline::after_seconds(20)); };
        Model model(
            spec, device, *job.ops[r],
            tensor_parallel(spec, {device, *job.ops[r], *job.communicators[r]}, {.max_rows = kTensorRows, .seed = 11}));
        model.initialise(*stream, Deadline::after_seconds(20));
        const auto optimizer = make_optimizer(Hyper{}, device, *job.ops[r], model, {{0, model.layout().num_floats}});
        optimizer->reset(*stream);
        std::vector<float> own(static_cast<size_t>(model.layout().num_floats));
        job.communicators[r]->reset_traffic();
        for (int step = 0; step < kTensorSteps; ++step) {
          for (int micro = 0; micro < micro_batches; ++micro) {
            const RowRange rows = even_share(kTensorRows, micro_batches, micro);
            const BatchView batch{data.features.data() + rows.begin * spec.input_width,
                                  data.targets.data() + rows.begin * spec.target_width(), rows.rows(), rows.begin,
                                  kTensorRows};
            model.forward(*stream, batch, true);
            model.loss(*stream, batch, micro > 0);
            model.backward(*stream, batch, micro > 0, {});
          }
          wait();
          if (step == 0) outcome.comm_bytes[r] = job.communicators[r]->traffic().payload_bytes;
          float stats[kLossStats];
          device.copy_out(*stream, stats, model.loss_stats(), sizeof(stats));
          device.copy_out(*stream, own.data(), model.grads(), own.size() * sizeof(float));
          wait();
          outcome.losses[r].push_back(static_cast<double>(stats[0]));
          if (step == 0) {
            const std::lock_guard held(lock);
            put_shards(outcome.gradients, all, own, model.layout());
          }
          optimizer->update(*stream, 0, model.layout().num_floats);
          job.ops[r]->elementwise().increment(*stream, model.step_counter());
        }
        device.copy_out(*stream, own.data(), model.params(), own.size() * sizeof(float));
        wait();
        const std::lock_guard held(lock);
        put_shards(outcome.parameters, all, own, model.layout());
      },
      [&](const Error& cause) {
        for (auto& communicator : job.communicators) communicator->abort(cause);
      });
  return outcome;
}

class TensorParallel : public ::testing::TestWithParam<std::tuple<int, int, int, LossKind>> {};

TEST_P(TensorParallel, EqualsOneDeviceInFloat64) {
  const auto [ranks, layers, micro_batches, loss_kind] = GetParam();
  const ModelSpec spec = model_of(loss_kind, layers);
  ASSERT_TRUE(tensor_feasible(spec, ranks).ok);
  const JobData data = random_data(spec, kTensorRows, 3);
  const Outcome outcome = run(spec, ranks, micro_batches, data);
  ReferenceMlp reference(spec, Hyper{}, 11);
  for (int step = 0; step < kTensorSteps; ++step) {
    const double loss = reference.gradients(data.features, data.targets, kTensorRows, true);
    for (const auto& losses : outcome.losses) {
      EXPECT_NEAR(losses[static_cast<size_t>(step)], loss, 1e-5 * std::max(1.0, loss)) << "step " << step;
      EXPECT_EQ(losses, outcome.losses.front());
    }
    if (step == 0) {
      EXPECT_LT(relative_error(outcome.gradients, reference.grads(), 0), 1e-5);
    }
    reference.update();
  }
  EXPECT_LT(relative_error(outcome.parameters, reference.params(), 0), 1e-4);
  int64_t bytes = 0;
  for (int micro = 0; micro < micro_batches; ++micro)
    bytes += tensor_traffic_bytes(spec, ranks, even_share(kTensorRows, micro_batches, micro).rows());
  for (const size_t counted : outcome.comm_bytes) EXPECT_EQ(static_cast<int64_t>(counted), bytes);
}

INSTANTIATE_TEST_SUITE_P(Dense, TensorParallel,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4), ::testing::Values(1, 2, 3, 4, 5, 6),
                                            ::testing::Values(1, 3),
                                            ::testing::Values(LossKind::mse, LossKind::softmax_cross_entropy)),
                         [](const auto& which) {
                           return fmt::format("tp{}_layers{}_m{}_{}", std::get<0>(which.param),
                                              std::get<1>(which.param), std::get<2>(which.param),
                                              std::get<3>(which.param) == LossKind::mse ? "mse" : "xent");
                         });

TEST(TensorShards, CoverEveryWeightOnceInGroupsOfFour) {
  const ModelSpec spec = model_of(LossKind::mse, 6);
  for (const int ranks : {1, 2, 3, 5}) {
    std::vector<std::vector<int>> held(spec.layers.size());
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<WeightShard> shards = tensor_shards(spec, ranks, rank);
      for (size_t i = 0; i < shards.size(); ++i) {
        const int64_t width = spec.layer_input_width(i);
        held[i].resize(static_cast<size_t>(spec.layers[i].units * width), 0);
        ASSERT_EQ(shards[i].row_begin % 4, 0);
        ASSERT_EQ(shards[i].column_begin % 4, 0);
        for (int64_t r = shards[i].row_begin; r < shards[i].row_end; ++r)
          for (int64_t c = shards[i].column_begin; c < shards[i].column_end; ++c)
            ++held[i][static_cast<size_t>(r * width + c)];
      }
    }
    const std::vector<TensorRole> roles = tensor_roles(spec);
    for (size_t i = 0; i < held.size(); ++i)
      for (const int count : held[i]) ASSERT_EQ(count, roles[i] == TensorRole::whole ? ranks : 1);
  }
}

TEST(TensorShards, WhatCannotBeDividedIsRefusedByLayer) {
  const Feasibility feasible = tensor_feasible(model_of(LossKind::mse, 4), 11);  // 37 units are 10 groups
  EXPECT_FALSE(feasible.ok);
  EXPECT_NE(feasible.reason.find("layer 0 has 37 units"), std::string::npos) << feasible.reason;
  EXPECT_FALSE(tensor_feasible(model_of(LossKind::mse, 4), 0).ok);
}

}  // namespace
}  // namespace amdahl::test
