// What several devices would do with work that was measured on one: predicted from step times and a link.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// What carries gradients between devices. An all-reduce of `bytes` over n devices is predicted to take
///     base_us + 2 (n - 1) hop_us  +  2 (n - 1) / n x bytes / rate(n)
/// by a ring, with rate(n) = ring_efficiency x min(gbps, total_gbps / n).
struct AMDAHL_API LinkModel {
  std::string name;
  double gbps = 0;             // what a device sends in one direction while it receives as much, GB/s
  double total_gbps = 0;       // of all devices together where they share a bottleneck; 0: they do not
  double ring_efficiency = 1;  // part of the rate that a large all-reduce reaches
  double base_us = 0;          // of an all-reduce of a few bytes, whatever the number of devices
  double hop_us = 0;           // of each of its 2 (n - 1) steps
  Origin rate_origin = Origin::modelled, latency_origin = Origin::modelled;
  std::string rate_source, latency_source;

  double ring_gbps(int64_t devices) const;
  double latency_us(int64_t devices) const;
  double transfer_us(double bytes, int64_t devices) const;
};

/// The links that have a name: nvlink4, pcie5, host.
AMDAHL_API const std::vector<LinkModel>& link_models();

/// A part of a predicted step.
struct PredictedTerm {
  std::string name;
  double us = 0;  // negative where time is taken off
  Origin origin = Origin::modelled;
  std::string source;
};

/// A cell on several devices that was measured after all: what the prediction is worth.
struct MeasuredStep {
  std::string strategy;
  double step_us = 0;
  double speedup = 1;
  int64_t n = 0;  // runs
};

/// One global batch on one device count, by data parallelism.
struct ScalingPrediction {
  CellKey single;        // the fastest measured configuration of the batch on one device
  double single_us = 0;  // T1(B), mean of n_single runs
  int64_t n_single = 0;
  int64_t devices = 2;
  std::vector<PredictedTerm> terms;  // their sum is step_us
  double step_us = 0;
  double speedup = 1;
  std::optional<Interval> ci;  // of the measured terms alone; the model's own error is not in it
  Recommendation recommendation = Recommendation::unclear;
  std::vector<MeasuredStep> measured;
};

struct ScalingOutlook {
  std::string device_kind;
  LinkModel link;
  bool overlap = false;
  std::vector<ScalingPrediction> predictions;
  std::vector<std::string> notes;
};

struct ScalingQuestion {
  std::vector<int64_t> devices{2, 4};
  std::string model{};       // of the records; empty: every model
  int64_t global_batch = 0;  // 0: every batch that was measured on one device
  bool overlap = false;      // hide communication behind backward, as far as backward takes time
};

}  // namespace amdahl
