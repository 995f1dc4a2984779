// Prediction of the speedup of several devices from step times of one device and a link model. Plain data.
//
// Example:
//   const amdahl::LinkModel& link = amdahl::link_models().front();
//   std::printf("%s: 100 MB over 4 devices in %.0f us\n", link.name.c_str(), link.transfer_us(1e8, 4));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// Model of the link that transfers gradients between devices. The predicted time of a ring all-reduce of `bytes` over
/// n devices is
///     base_us + 2 (n - 1) hop_us  +  2 (n - 1) / n x bytes / rate(n)
/// with rate(n) = ring_efficiency x min(gbps, total_gbps / n). Thread-safe: const functions only.
struct AMDAHL_API LinkModel {
  std::string name;
  double gbps = 0;             // rate of a device per direction while it sends and receives, GB/s
  double total_gbps = 0;       // rate of all devices together where they share a bottleneck, GB/s; 0: no bottleneck
  double ring_efficiency = 1;  // share of the rate that a large all-reduce reaches
  double base_us = 0;          // latency of a small all-reduce, independent of the number of devices
  double hop_us = 0;           // latency of each of its 2 (n - 1) steps
  Origin rate_origin = Origin::modelled, latency_origin = Origin::modelled;
  std::string rate_source, latency_source;

  double ring_gbps(int64_t devices) const;                  // rate(n), GB/s
  double latency_us(int64_t devices) const;                 // base_us + 2 (n - 1) hop_us
  double transfer_us(double bytes, int64_t devices) const;  // the term with `bytes`
};

/// The built-in links: nvlink4, pcie5, host. Thread-safe.
AMDAHL_API const std::vector<LinkModel>& link_models();

/// One term of a predicted step.
struct PredictedTerm {
  std::string name;
  double us = 0;  // negative for hidden communication
  Origin origin = Origin::modelled;
  std::string source;
};

/// A measured cell on several devices, to check the prediction.
struct MeasuredStep {
  std::string strategy;
  double step_us = 0;
  double speedup = 1;
  int64_t n = 0;  // runs
};

/// Prediction for one global batch on one device count, with data parallelism.
struct ScalingPrediction {
  CellKey single;        // fastest measured configuration of the batch on one device
  double single_us = 0;  // T1(B), median of n_single runs
  int64_t n_single = 0;
  int64_t devices = 2;
  std::vector<PredictedTerm> terms;  // their sum is step_us
  double step_us = 0;
  double speedup = 1;
  std::optional<Interval> ci;  // of the measured terms; does not include the error of the model
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
  std::string model{};       // model of the records; empty: every model
  int64_t global_batch = 0;  // 0: every batch that was measured on one device
  bool overlap = false;      // true: communication overlaps with backward, at most for its duration
};

}  // namespace amdahl
