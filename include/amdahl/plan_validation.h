// How well predicted step times agree with measured ones. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "amdahl/calibration.h"
#include "amdahl/model_spec.h"
#include "amdahl/plan.h"

namespace amdahl {

/// One measured iteration of a GPT model under tensor, data and pipeline parallelism.
struct MeasuredIteration {
  int64_t gpus = 1, global_batch = 1, micro_batch = 1, hidden = 0, heads = 1, layers = 1, sequence = 1024;
  int64_t tp = 1, dp = 1, pp = 1;
  int64_t node_gpus = 8;   // GPUs of a node
  int64_t recompute = -1;  // 1: backward computes all activations again; -1: not known
  double iteration_ms = 0;
  bool operator==(const MeasuredIteration&) const = default;
};

/// Errors |predicted / measured - 1| of one method of prediction.
struct ErrorSummary {
  std::string name;  // "tp1 dp2 pp1", "hidden 1024", "linear scaling"
  int64_t rows = 0;
  double mean = 0, p95 = 0, worst = 0;
  double bias = 0;  // mean of predicted / measured - 1
};

struct PlanValidation {
  int64_t rows = 0;
  int fitted_constants = 0;
  Calibration calibration;                  // fitted to all rows
  ErrorSummary in_sample, left_out_layout;  // of all rows
  std::string recompute;                    // what was assumed where the rows do not say it, and why; may be empty
  std::vector<ErrorSummary> layouts;        // each left out
  std::vector<ErrorSummary> sizes;      // leaving out each value of hidden, layers, micro-batch, global batch, tp, pp
  std::vector<ErrorSummary> baselines;  // without calibration, and linear scaling
  double rank_by_replica_batch = 0;     // Spearman's, mean over shapes of equal rows per replica: layouts of a shape
  double rank_by_global_batch = 0;      // of equal global batch
  double rank_worst = 0;                // of the shapes of both
  double coverage = 0;                  // part of left-out rows inside their 95 % interval
  double bound_to_simulation = 0;       // largest relative difference of the pipeline's bound and its simulation
  ErrorSummary also;                    // of further rows
  double also_coverage = 0;
};

}  // namespace amdahl
