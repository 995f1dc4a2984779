// A small training job on virtual or real devices, for equivalence and parity tests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/world.h"
#include "train/trainer.h"
#include "train/trainer_state.h"

namespace amdahl::test {

struct JobData {
  std::vector<float> features;  // [rows, input_width]
  std::vector<float> targets;
};
/// Random normal features, or random tokens; normal targets for MSE, class indices for cross-entropy. Those of
/// documents follow from the token: the first tokens of documents are alike, and no model could learn others.
JobData random_data(const ModelSpec& model, int64_t rows, uint64_t seed);

/// A model with odd widths: buckets, padding and vector tails are all exercised.
ModelSpec odd_model(LossKind loss, double dropout = 0.25);
/// Nine dense layers of odd widths with dropout, some without bias.
ModelSpec deep_model(LossKind loss);

struct JobResult {
  std::vector<double> losses;              // per step
  double correct = 0;                      // of the last step
  std::vector<float> first_gradients;      // after the first step, each part taken from a rank that owns it
  std::vector<std::vector<float>> params;  // per rank, after the last step
  std::vector<size_t> comm_bytes;          // per rank, one step
  std::vector<size_t> comm_calls;
};

/// Devices, ops and communicators of a job.
struct JobDevices {
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Ops>> ops;
  std::vector<std::unique_ptr<Communicator>> communicators;
};
JobDevices cpu_job_devices(int count, MathMode math = MathMode::fp32);
/// With collectives in symmetric memory.
JobDevices symmetric_job_devices(int count);

/// Of the global batch in the owned ranges; needs keep_gradients.
std::vector<float> read_gradients(TrainingParts& parts);
/// On the device: the parameters of the first owned range, and the optimizer's arrays of state for all of them.
std::vector<float*> own_arrays(TrainingParts& parts);

/// Runs `steps` optimizer steps on the same global batch. The result has the gradients if `options` keep them.
JobResult run_job(JobDevices& devices, const TrainerOptions& options, const JobData& data, int steps);

}  // namespace amdahl::test
