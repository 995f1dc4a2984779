// Ranks that should hold the same parameters: a bit that differs is found, named, and ends train and study.
#include "train/replicas.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "device/cpu_stream.h"
#include "forwarding_communicator.h"
#include "measure/local_fleet.h"
#include "measure/study/runner.h"
#include "measure/training/train_run.h"
#include "setup/backends.h"
#include "small_job.h"

namespace amdahl {
namespace {

/// The ranks' communicator, of which one rank receives a bit other than what was sent in its all-reduce number `call`.
class FaultyCommunicator final : public test::ForwardingCommunicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> inner, int64_t call)
      : inner_(std::move(inner)), faulty_call_(call) {}
  using ForwardingCommunicator::all_reduce;
  void all_reduce(const void* send, void* recv, size_t n, DType t, ReduceOp op, Stream& s) override {
    inner_->all_reduce(send, recv, n, t, op, s);
    if (++calls_ != faulty_call_) return;
    ASSERT_TRUE(t == DType::f32 && n > 0);
    auto* bytes = static_cast<unsigned char*>(recv);
    as_cpu(s).enqueue([bytes, top = sizeof(float) - 1] { bytes[top] ^= 0x40; });
  }
  bool shares_address_space() const override { return false; }  // all data pass through collectives

 private:
  Communicator& inner() const override { return *inner_; }

  std::unique_ptr<Communicator> inner_;
  int64_t faulty_call_, calls_ = 0;
};

/// `faulty_rank` receives a wrong bit in its all-reduce number `call`; 0: never.
std::unique_ptr<Fleet> faulty_fleet(int devices, int faulty_rank, int64_t call) {
  FleetParts parts;
  parts.device_kind = "cpu-virtual";
  parts.devices = make_cpu_devices(devices);
  parts.make_ops = [](Device& device) { return make_cpu_ops(device, {}); };
  return make_thread_fleet(std::move(parts), [=](const std::vector<Device*>& group) {
    auto inner = make_inproc_communicators(static_cast<int>(group.size()), 20);
    std::vector<std::unique_ptr<Communicator>> all;
    for (auto& communicator : inner) {
      const bool faulty = communicator->rank() == faulty_rank;
      all.push_back(std::make_unique<FaultyCommunicator>(std::move(communicator), faulty ? call : 0));
    }
    return all;
  });
}

TrainSettings train_settings(int devices, const char* strategy) {
  TrainSettings settings;
  settings.trainer.model = test::odd_model(LossKind::mse);
  settings.trainer.plan.strategy = strategy;
  settings.trainer.plan.mesh.dp = devices;
  settings.trainer.plan.global_batch = 16;
  settings.trainer.timeout_seconds = 20;
  settings.epochs = 2;
  return settings;
}

std::string error_of_training(Fleet& fleet, const TrainSettings& settings) {
  const ModelSpec& model = settings.trainer.model;
  const Dataset data = make_study_dataset(100, model.input_width, model.output_width(), 1);
  try {
    run_training(fleet, data, settings, {.finished = [](const EpochResult&) {}, .checkpoint = {}});
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::check_failed) << error.what();
    return error.what();
  }
  return {};
}

TEST(Replicas, TheRankThatDiffersFromMostIsNamed) {
  const ModelSpec model = test::odd_model(LossKind::mse);
  std::vector<float> parameters(static_cast<size_t>(make_layout(model).num_floats), 0.5F);
  const TensorHashes good = hash_tensors(model, parameters);
  EXPECT_EQ(good.size(), 7u) << "four weights, three biases";
  EXPECT_EQ(compare_replicas(model, {good, good, good}, "now"), nullptr);
  const LayerSlice layer = make_layout(model).layers[2];
  parameters[static_cast<size_t>(layer.bias)] = -0.5F;
  const TensorHashes one = hash_tensors(model, parameters);
  parameters[static_cast<size_t>(layer.weight)] = 0.50000006F;
  const TensorHashes two = hash_tensors(model, parameters);
  EXPECT_EQ(std::string(compare_replicas(model, {good, good, one, good}, "now")->what())
                .find("rank 2 differs from the other ranks in the bias of layer 2 now"),
            0u);
  EXPECT_EQ(std::string(compare_replicas(model, {two, good, good}, "now")->what())
                .find("rank 0 differs from the other ranks in the weight of layer 2 and 1 more tensors now"),
            0u);
  EXPECT_EQ(std::string(compare_replicas(model, {good, one}, "now")->what())
                .find("rank 1 differs from rank 0 in the bias of layer 2 now"),
            0u);
}

TEST(Replicas, TrainingThatIsAlikeGoesThrough) {
  for (const StrategyRow& row : strategy_table()) {
    if (row.name == "single") continue;
    TrainSettings settings = train_settings(3, std::string(row.name).c_str());
    settings.check_every = 1;
    EXPECT_EQ(error_of_training(*faulty_fleet(3, -1, 0), settings), "") << row.name;
  }
}

TEST(Replicas, AWrongBitEndsTrainingAtTheNextCheck) {
  TrainSettings settings = train_settings(3, "ddp");
  settings.check_every = 4;
  EXPECT_NE(error_of_training(*faulty_fleet(3, 1, 2), settings)
                .find("rank 1 differs from the other ranks in the bias of layer 3"),
            std::string::npos);
  EXPECT_NE(error_of_training(*faulty_fleet(3, 1, 2), settings).find("after step 4:"), std::string::npos);
  settings.check_every = 0;  // after the last alone: 2 epochs of 80 rows
  EXPECT_NE(error_of_training(*faulty_fleet(3, 1, 2), settings).find("after step 10:"), std::string::npos);
}

/// Trains on three ranks, of which rank 1 loses bits of array `array` of its own state between two steps; what is said.
std::string said_after_lost_bits(const TrainSettings& settings, size_t array, std::mt19937& random, int bits) {
  const std::unique_ptr<Fleet> fleet = faulty_fleet(3, -1, 0);
  const ModelSpec& model = settings.trainer.model;
  const uint32_t seed = random();
  try {
    fleet->run(3, [&](RankContext& rank) {
      Trainer trainer(rank, settings.trainer);
      const Dataset data = make_study_dataset(16, model.input_width, model.output_width(), 1);
      const RowRange rows = trainer.rows_to_provide();
      const float* const features = data.features.data() + rows.begin * model.input_width;
      const float* const targets = data.targets.data() + rows.begin * data.target_floats();
      std::mt19937 own(seed);
      for (int step = 0; step < 6; ++step) {
        trainer.step(features, targets);
        trainer.synchronize();
        if (rank.rank != 1 || step < 1 || step > bits) continue;
        const FloatRange range = trainer.parts().owned().front();
        auto* const words = reinterpret_cast<uint32_t*>(test::own_arrays(trainer.parts())[array]);
        words[own() % static_cast<uint32_t>(range.floats())] ^= uint32_t{1} << (own() % 32);
      }
      check_own_state(trainer.parts(), "now");
    });
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::check_failed) << error.what();
    EXPECT_EQ(error.rank(), 1);
    return error.what();
  }
  return {};
}

TEST(Replicas, BitsThatOneRankAloneHoldsAreMissed) {
  std::mt19937 random(41);
  for (const char* strategy : {"zero1", "zero2", "zero3"})
    for (const char* optimizer : {"adam", "adamw", "sgd"}) {
      TrainSettings settings = train_settings(3, strategy);
      settings.trainer.hyper.optimizer = optimizer;
      settings.trainer.hyper.clip_norm = random() % 2 == 0 ? 1.0F : 0.0F;
      EXPECT_EQ(said_after_lost_bits(settings, 0, random, 0), "") << strategy << ' ' << optimizer;
      for (int array = 0; array <= num_state_arrays(settings.trainer.hyper); ++array)
        for (int flip = 0; flip < 4; ++flip) {
          const std::string said = said_after_lost_bits(settings, static_cast<size_t>(array), random, 1);
          const std::string name = array == 0 ? "the parameters" : state_name(settings.trainer.hyper, array - 1);
          EXPECT_EQ(said.find("rank 1: its part of " + name + " changed otherwise than by updates, now"), 0u)
              << strategy << ' ' << optimizer << ": " << said;
        }
    }
}

TEST(Replicas, AWrongBitEndsAStudyInItsCell) {
  const std::unique_ptr<Fleet> fleet = faulty_fleet(2, 1, 1);
  StudySettings settings;
  settings.model = test::odd_model(LossKind::mse);
  settings.trainer = train_settings(2, "ddp").trainer;
  settings.runs = 1;
  settings.warmup = settings.steps = 2;
  StudyCellSpec cell;
  cell.global_batch = 16;
  cell.devices = 2;
  cell.strategy = "ddp";
  settings.groups = {{cell}};
  const Dataset data = make_study_dataset(16, settings.model.input_width, settings.model.output_width(), 1);
  Observer observer;
  int records = 0;
  try {
    run_study_cells(
        *fleet, data, settings, {}, [&](const Record&) { ++records; }, observer);
    FAIL() << "the study went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::check_failed) << error.what();
    EXPECT_NE(std::string(error.what()).find("rank 1 differs from rank 0 in the bias of layer 3"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(records, 0);
}

}  // namespace
}  // namespace amdahl
