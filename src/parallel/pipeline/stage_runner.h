// StageRunner: executes one rank's actions of a pipeline schedule on its stages of a model.
//
// Compute runs on one stream in the schedule's order. Every boundary between stages of different ranks has a stream and
// a communicator for each direction, so that no transfer waits behind another one; between stages of one rank tensors
// are copied. A call enqueues a whole step and returns.
#pragma once

#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "model/model.h"
#include "parallel/pipeline/schedule.h"

namespace amdahl {

/// What a rank of the pipeline works with; everything outlives the runner.
struct StageContext {
  Device& device;
  Ops& ops;
  Communicator& pipeline;  // over the schedule's ranks, in their order
  double timeout_seconds = 60;
};

struct StageOptions {
  int64_t global_batch = 0;        // rows per step, cut into the schedule's micro-batches
  uint64_t seed = 42;              // of parameters and dropout: the same as one device would draw
  std::vector<LayerRange> layers;  // of each stage; empty: balanced by layer_flops
};

class StageRunner {
 public:
  /// Collective over the pipeline and blocking on the host. Error{usage} where the schedule does not fit the pipeline,
  /// the model or the batch; Error{check_failed} for a schedule that check_schedule refuses.
  StageRunner(const ModelSpec& model, const PipelineSchedule& schedule, const StageContext& context,
              const StageOptions& options);
  ~StageRunner();

  /// Fresh parameters and step counts. Blocks.
  void initialise();
  /// Enqueues forward, loss and backward of all micro-batches. `features` [global_batch, input width] is read on the
  /// rank of the first stage, `targets` on that of the last one. Afterwards each stage's model holds its gradients.
  void enqueue_gradients(const float* features, const float* targets);
  /// Blocks until everything that was enqueued is done.
  void synchronize();

  /// The rank's stages in ascending order.
  size_t num_stages() const { return stages_.size(); }
  Model& model(size_t index);
  /// Where the stages' gradients are complete in stream order, and their optimizers run.
  Stream& compute_stream() { return *compute_; }
  /// Index of the last stage of the whole model among this rank's, whose model has the loss; -1 on other ranks.
  int loss_stage() const;

 private:
  struct Stage;
  Stage& stage_of(int number);
  void connect();
  BatchView batch_of(const Stage& stage, int micro_batch, const float* features, const float* targets) const;
  void forward(Stage& stage, int micro_batch, const float* features, const float* targets);
  void backward(Stage& stage, const Action& action, const float* features, const float* targets);
  void receive_input(Stage& stage, int micro_batch, int64_t rows);
  void receive_gradient(Stage& stage, int micro_batch, int64_t rows);
  void send_output(Stage& stage, int micro_batch, int64_t rows);
  void send_input_gradient(Stage& stage, int micro_batch, int64_t rows);
  Deadline deadline() const { return Deadline::after_seconds(context_.timeout_seconds + 2.0); }

  ModelSpec spec_;
  PipelineSchedule schedule_;
  StageContext context_;
  StageOptions options_;
  std::unique_ptr<Stream> compute_;
  std::vector<std::unique_ptr<Stage>> stages_;
};

}  // namespace amdahl
