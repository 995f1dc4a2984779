// DividedModel: a rank's part of a model under tensor or pipeline parallelism, with the groups it communicates in.
//
// One array holds the parameters of all of the rank's stages, so that gradient synchronisation, optimizer and clipping
// along the data axis work on it as on a whole model.
#pragma once

#include <memory>
#include <vector>

#include "comm/device_mesh.h"
#include "parallel/data/strategy.h"
#include "parallel/pipeline/stage_runner.h"
#include "parallel/tensor/group.h"

namespace amdahl {

/// What a rank of a mesh holds of a model.
ModelPart part_of(const ModelSpec& model, const ParallelPlan& plan, int rank);

/// What a divided model is made from. All references outlive it.
struct DividedContext {
  const ModelSpec& model;
  const ParallelPlan& plan;
  Device& device;
  Ops& ops;
  Communicator& world;  // over all ranks of the mesh
  Stream& compute;
  uint64_t seed = 42;
  double timeout_seconds = 60;
};

class DividedModel {
 public:
  /// Collective; blocks. Error{usage} for a plan that cannot be executed (require_plan_feasible).
  explicit DividedModel(const DividedContext& context);

  const MeshPlace& place() const { return mesh_.place(); }
  Communicator& dp() { return mesh_.dp(); }
  /// The ranks that together hold one replica of the model.
  Communicator& replica() { return *replica_; }
  /// The model of the only stage, or of the first one of this rank: its layout, parameters and gradients are those of
  /// all stages.
  Model& model() { return runner_ ? runner_->model(0) : *model_; }
  /// Null without pipeline stages.
  StageRunner* stages() { return runner_.get(); }
  /// The model whose loss is that of this rank's rows; null where another stage has it.
  Model* loss_model();
  /// Whether this rank's loss is a term of the sum over all ranks.
  bool counts_loss() { return loss_model() && place().tp == 0; }
  /// What the layers of all stages keep besides parameters.
  std::vector<NamedBuffer> buffers();
  /// Fresh parameters and step counts. Blocks.
  void initialise();

  /// A step's forward and backward passes over the stages, as StageRunner::enqueue_gradients. `hooks.ready` of a table
  /// that two stages hold comes after its copies' gradients were added up.
  void enqueue_gradients(const float* features, const float* targets, StageHooks hooks);

  /// The optimizer for strategies: clipping takes the norm over all ranks of a replica.
  RangeOptimizer& shared(RangeOptimizer& optimizer);

  /// Leaves out the sums of tensor parallelism, to time steps without them.
  void silence_tensor(bool silent) { tensor_.silence(silent); }
  /// Leaves out all communication within the replica until called with false.
  void silence(bool silent);
  /// Payload bytes that this rank has passed to communicators since the last call.
  size_t take_traffic();

  /// Floats of a layer's table of which another stage holds a copy; empty without.
  FloatRange shared_table() const;

 private:
  void connect_tables(Deadline deadline);
  std::vector<FloatRange> counted_ranges() const;

  DividedContext context_;
  DeviceMesh mesh_;
  std::unique_ptr<Communicator> replica_, tables_;
  CommunicatorGroup tensor_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<StageRunner> runner_;
  std::unique_ptr<RangeOptimizer> optimizer_;
  bool silent_ = false;
};

}  // namespace amdahl
