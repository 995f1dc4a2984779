// Measures steps for the planner: cells of brief studies.
#pragma once

#include <vector>

#include "amdahl/planner.h"
#include "planner/fit.h"

namespace amdahl {

/// Where the time of a measured step went, in us: shares by the study's account of one run.
struct MeasuredParts {
  double compute_us = 0;  // with launch gaps and input
  double optimizer_us = 0;
  double dp_us = 0, tp_us = 0, pp_us = 0;  // exposed communication by axis, that of dp with waiting for the slowest
  double bubble_us = 0;
};

struct MeasuredStepTime {
  ModelSpec model;  // as it was trained, with the shape of its data
  ParallelPlan plan;
  std::vector<double> runs_us;    // the half of the runs that other programs disturbed least
  double disturbance = 0;         // processor time that they took from these, relative to the run's duration
  double step_us = 0, sd_us = 0;  // median and standard deviation of these
  MeasuredParts parts;
  double memory_bytes = 0, modelled_bytes = 0;  // counted and modelled by the engine, of the fullest device
};

struct StepSampling {
  int runs = 3, warmup = 3, steps = 10;
};

/// Steps that a brief study takes for each cell, for estimates of its duration.
double steps_of_cell(const StepSampling& sampling);

/// Measures a model under each plan, and on one device, at each batch, by one study. What does not fit into memory, and
/// what was not measured after `seconds` (0: no limit), is left out: every run takes all plans in turn.
std::vector<MeasuredStepTime> measure_steps(const EngineConfig& engine, const ModelSpec& model,
                                            const std::vector<int64_t>& batches, const std::vector<ParallelPlan>& plans,
                                            const StepSampling& sampling, double seconds, Observer& observer);

/// The terms of a step, predicted beside measured; those of axes that the plan has.
std::vector<PlanPart> parts_of_step(const PlanAccount& predicted, const MeasuredParts& measured, const Mesh& mesh);

/// `cores`: that virtual devices share; the account of several cannot tell work from waiting, so that the step alone
/// counts. 0: devices have their own.
FitRow fit_row(const MeasuredStepTime& step, int cores, const SoftwareProfile& software);

}  // namespace amdahl
