// The two stages of a pipeline on one device, and the pair of buffers between them.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "sensor/measure/pipeline.h"
#include "train/trainer.h"

namespace amdahl {

/// Different batches that a pipeline goes through again and again.
inline constexpr int kPipelineBatches = 4;

/// Two buffers for fused batches, with the targets of each, and the marks that pass them to and fro. Batch i uses place
/// i % 2.
class BatchBuffers {
 public:
  BatchBuffers(Device& device, const PipelinePlan& plan);

  struct Place {
    std::unique_ptr<Buffer> features, targets;
    std::unique_ptr<Event> filled, freed;
  };
  Place& of(int batch) { return places_[static_cast<size_t>(batch % 2)]; }

 private:
  std::array<Place, 2> places_;
};

/// Makes batches: the pool's items lie on the device.
class FuseStage {
 public:
  FuseStage(RankContext& rank, SensorOps& ops, const PipelinePlan& plan, Stream& stream, Deadline deadline);
  /// Batch i of the pool, into features [B, T * sum of widths].
  void enqueue(Stream& stream, int batch, float* features);

 private:
  SensorOps& ops_;
  int64_t rows_;
  SensorWorkload workload_;
};

/// Random targets of the pool's batches.
class TargetPool {
 public:
  TargetPool(Device& device, const PipelinePlan& plan, Stream& stream, Deadline deadline);
  void enqueue_copy(Stream& stream, int batch, Buffer& targets);

 private:
  size_t batch_bytes_;
  std::unique_ptr<Buffer> all_;
};

/// Trains: a Trainer of one device, and a log of its losses.
class TrainStage {
 public:
  TrainStage(RankContext& rank, const PipelinePlan& plan, const SensorBenchSettings& settings, int batches);

  Stream& stream() { return trainer_.compute_stream(); }
  /// A step on that place's batch; its loss becomes entry `batch` of the log.
  void enqueue(BatchBuffers::Place& place, int batch);
  void reset() { trainer_.reset(); }
  void synchronize() { trainer_.synchronize(); }
  std::vector<double> losses(Deadline deadline);

 private:
  Device& device_;
  std::unique_ptr<Communicator> alone_;
  RankContext context_;
  Trainer trainer_;
  int num_batches_;
  std::unique_ptr<Buffer> log_;
};

}  // namespace amdahl
