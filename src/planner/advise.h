// Whether to use one device or several: from measured records, or by the thresholds of the published study.
#pragma once

#include "amdahl/advice.h"
#include "amdahl/summary.h"

namespace amdahl {

/// Policy `measured`. Answers only from the comparisons of `summary`: those of the same model size and batch, else
/// those within a factor of 2 in both when they agree, the nearest first: by the distance in the logarithms of both,
/// and of equally near ones those with the batch that was asked for. Without such evidence the decision is "unknown"
/// with the command that would measure it; with evidence that does not decide, "benchmark".
Advice advise_measured(const AdviceRequest& request, const StudySummary& summary);

/// Policy `study`. The published selector, threshold for threshold: below 1M parameters single; below 5M single under a
/// batch of 128, else evaluate; from 10M multi at a batch of 64 or more, else single; between 5M and 10M benchmark. The
/// evidence names where the study contradicts itself.
Advice advise_published(const AdviceRequest& request);

}  // namespace amdahl
