// Advises one device or several, from measured records or by the thresholds of the published study.
#pragma once

#include "amdahl/comparison.h"
#include "amdahl/plan.h"
#include "amdahl/planner.h"
#include "amdahl/summary.h"

namespace amdahl {

/// Policy `measured`. Uses only the comparisons of `summary`: those of the same model size and batch; otherwise those
/// within a factor of 2 in both when they agree, nearest first by the distance in the logarithms of both, with ties won
/// by the requested batch. Without such evidence the decision is "unknown", with the command that would measure it;
/// with evidence that does not decide, "benchmark".
Advice advise_measured(const AdviceRequest& request, const StudySummary& summary);

/// What is predicted from a calibration, for where nothing was measured: the best plans on one device and on several up
/// to `max_devices`, by the limits of a study's verdicts. Certain of one device only where every interval is.
Advice advise_predicted(const AdviceRequest& request, const ModelSpec& model, const Calibration& calibration);

/// A model of dense layers with about so many parameters.
ModelSpec dense_model_of(int64_t num_parameters);

/// Policy `study`. The published selector, threshold for threshold: below 1M parameters single; below 5M single under a
/// batch of 128, else evaluate; from 10M multi at a batch of 64 or more, else single; between 5M and 10M benchmark. The
/// evidence names the contradictions within the study.
Advice advise_published(const AdviceRequest& request);

}  // namespace amdahl
