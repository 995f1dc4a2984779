// StageRunner: executes one rank's actions of a pipeline schedule on its stages of a model.
//
// Compute runs on one stream in the schedule's order. Every boundary between stages of different ranks has one stream
// and one communicator per direction, so that transfers do not queue behind each other; between stages of one rank,
// tensors are copied. Not thread-safe: one per rank. A call enqueues a whole step and returns.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.h"
#include "model/model.h"
#include "parallel/pipeline/schedule.h"

namespace amdahl {

/// What a rank of the pipeline uses; everything must outlive the runner.
struct StageContext {
  Device& device;
  Ops& ops;
  Communicator& pipeline;  // over the schedule's ranks, in rank order
  double timeout_seconds = 60;
  Stream* compute = nullptr;  // null: a stream of the runner's own
};

struct StageOptions {
  int64_t global_batch = 0;        // rows per step of this pipeline, cut into the schedule's micro-batches
  uint64_t seed = 42;              // of parameters and dropout: draws equal those of one device
  std::vector<LayerRange> layers;  // of each stage; empty: balanced by layer_flops
  int64_t first_row = 0;           // of these rows in the batch of all pipelines
  int64_t all_rows = 0;            // of the batch of all pipelines; 0: this one's
  Recompute recompute = Recompute::none;
  std::shared_ptr<ParameterStorage> storage = nullptr;  // of all stages of this rank; null: each has its own
  LayerFactory make_layer = nullptr;                    // these four: see ModelOptions
  TensorGroup* tensor = nullptr;
  std::vector<TensorRole> roles{};
  std::vector<bool> divided_tokens{};
};

/// Callbacks of a step; each may be null.
struct StageHooks {
  /// Gradients [begin, end) of the layout are complete over all micro-batches, in the order of `stream`.
  std::function<void(int64_t begin, int64_t end, Stream& stream)> ready;
  /// Before (`begins`) and after an action is enqueued on the compute stream.
  std::function<void(bool begins, const Action& action)> around;
  /// Before (`begins`) and after the compute stream waits for what another rank sends.
  std::function<void(bool begins, const Action& action)> waits;
};

class StageRunner {
 public:
  /// Collective over the pipeline and blocking on the host. Error{usage} when the schedule does not fit the pipeline,
  /// the model or the batch; Error{check_failed} for a schedule that fails check_schedule.
  StageRunner(const ModelSpec& model, const PipelineSchedule& schedule, const StageContext& context,
              const StageOptions& options);
  ~StageRunner();

  /// Fresh parameters and step counts. Blocks.
  void initialise();
  /// Enqueues forward, loss and backward of all micro-batches. `features` [global_batch, input width] is read on the
  /// rank of the first stage, with LayerSpec::end_token on every rank; `targets` on the rank of the last one. Each
  /// stage's model then holds its gradients. The same arguments can be captured in a graph after a call of join:
  /// everything else a step does is in order.
  void enqueue_gradients(const float* features, const float* targets, const StageHooks& hooks = {});
  /// Enqueues messages alone, `times` times: the activations of a micro-batch from the first stage to the last one,
  /// then its gradients back, each message after the one before has arrived. Overwrites what stages keep of it. Every
  /// rank calls it with the same `times`; can be captured in a graph as enqueue_gradients.
  void enqueue_round_trips(int64_t times);
  /// Messages between different ranks in one round trip.
  int messages_per_round_trip() const;
  /// Lets the compute stream wait for all messages of enqueue_gradients: the end of a captured step.
  void join();
  /// Forward and loss without dropout of `rows` rows, at most those of a micro-batch; the loss is a mean over
  /// `all_rows`. Blocks. All ranks call it.
  void evaluate(const float* features, const float* targets, int64_t rows, int64_t all_rows);
  int64_t micro_batch_rows() const { return max_rows_; }
  /// Leaves out all messages until called with false: stages compute on what their inputs hold.
  void silence(bool silent) { silent_ = silent; }
  /// Payload bytes that this rank has sent and received since the last call.
  size_t take_traffic();
  /// Blocks until all enqueued work is done.
  void synchronize();

  /// The number of this rank's stages; `model(index)` takes them in ascending order.
  size_t num_stages() const { return stages_.size(); }
  Model& model(size_t index);
  /// The stream on which the stages' gradients become complete and their optimizers must run.
  Stream& compute_stream() { return *compute_; }
  /// Index among this rank's stages of the model's last stage, whose model has the loss; -1 on other ranks.
  int loss_stage() const;

 private:
  struct Stage;
  Stage& stage_of(int number);
  void connect();
  void begin_pass();
  BatchView batch_of(const Stage& stage, int micro_batch, const float* features, const float* targets) const;
  void forward(Stage& stage, const Action& action, const float* features, const float* targets,
               const StageHooks& hooks);
  void backward(Stage& stage, const Action& action, const float* features, const float* targets,
                const StageHooks& hooks);
  void tell_ready(const Stage& stage, const StageHooks& hooks);
  void receive_input(Stage& stage, const Action& action, int64_t rows, const StageHooks& hooks);
  void receive_gradient(Stage& stage, const Action& action, int64_t rows, const StageHooks& hooks);
  void send_output(Stage& stage, int micro_batch, int64_t rows);
  void send_input_gradient(Stage& stage, int micro_batch, int64_t rows);
  Deadline deadline() const { return Deadline::after_seconds(context_.timeout_seconds + 2.0); }

  ModelSpec spec_;
  PipelineSchedule schedule_;
  StageContext context_;
  StageOptions options_;
  std::unique_ptr<Stream> own_compute_;
  Stream* compute_;
  std::unique_ptr<Event> begun_;  // a pass
  bool joined_ = true;            // the compute stream waits for all messages so far
  bool silent_ = false;
  int64_t max_rows_ = 0;
  std::vector<std::unique_ptr<Stage>> stages_;
};

}  // namespace amdahl
