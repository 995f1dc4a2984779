// Preprocessing that feeds training: fused batches are the input of a model, one after the other, at the same time on
// one device, or on two.
#pragma once

#include <vector>

#include "sensor/measure/bench.h"

namespace amdahl {

struct PipelinePlan {
  SensorJob job;    // one batch: a fusion or resampling in f32
  ModelSpec model;  // input [T * sum of widths] a row
  std::string path = "direct";
};

/// Three Records, by axis "schedule": sequential (one stream), overlapped (fusing the next batch on a stream beside the
/// training step) and two-devices (fused on device 0, sent to device 1, trained there). Double buffers in the last two.
/// A call is one batch: fused, and an optimizer step on it. Losses that are not those of `sequential` fail: bit for bit
/// on virtual devices, to 1e-4 on GPUs, whose sums may be added in another order.
std::vector<Record> measure_sensor_pipeline(Fleet& fleet, const PipelinePlan& plan,
                                            const SensorBenchSettings& settings);

}  // namespace amdahl
