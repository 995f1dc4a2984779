// Ranks that should hold the same parameters: a bit that differs is found, named, and ends train and study.
#include "train/replicas.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "device/cpu_stream.h"
#include "forwarding_communicator.h"
#include "lab/backends.h"
#include "measure/local_fleet.h"
#include "measure/study/runner.h"
#include "measure/training/train_run.h"
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
