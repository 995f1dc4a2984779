// Measures steps for the planner: each is one cell of a study.
#pragma once

#include <vector>

#include "amdahl/amdahl.h"
#include "planner/fit.h"

namespace amdahl {

/// A step to measure.
struct StepRequest {
  ModelSpec model;
  ParallelPlan plan;
};

struct MeasuredStepTime {
  ModelSpec model;  // as it was trained, with the shape of its data
  ParallelPlan plan;
  double step_us = 0, sd_us = 0;  // median and standard deviation of the runs
  StudyCell cell;
};

struct StepSampling {
  int runs = 3, warmup = 3, steps = 10;
};

/// Measures a model's steps for every combination of batch and device count, by one study with ddp. Combinations
/// without a result are left out.
std::vector<MeasuredStepTime> measure_steps(const EngineConfig& engine, const ModelSpec& model,
                                            const std::vector<int64_t>& batches, const std::vector<int64_t>& devices,
                                            const StepSampling& sampling, Observer& observer);
/// One plan of data parallelism.
MeasuredStepTime measure_plan(const EngineConfig& engine, const ModelSpec& model, const ParallelPlan& plan,
                              const StepSampling& sampling, Observer& observer);

FitRow fit_row(const MeasuredStepTime& step);

}  // namespace amdahl
