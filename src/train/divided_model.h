// DividedModel: a rank's part of a model under a plan, with the groups it communicates in. Without tensor and pipeline
// parallelism that is the whole model, and its data-parallel group is all ranks.
//
// One array holds the parameters of all of the rank's stages, so that gradient synchronisation, optimizer and clipping
// along the data axis work on it as on a whole model. The constructor is in assemble.cpp.
#pragma once

#include <memory>
#include <optional>
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
  /// With tensor or pipeline parallelism collective and blocking, and Error{usage} for a plan that cannot be executed
  /// (require_plan_feasible).
  explicit DividedModel(const DividedContext& context);

  /// Whether tensor or pipeline parallelism divides the model.
  bool is_divided() const { return mesh_.has_value(); }
  const MeshPlace& place() const { return place_; }
  /// The ranks that hold the same part of the model.
  Communicator& dp() { return mesh_ ? mesh_->dp() : context_.world; }
  /// The ranks that together hold one replica of a divided model.
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
  void initialise(Deadline deadline);

  /// A step's forward and backward passes over the stages, as StageRunner::enqueue_gradients. `hooks.ready` of a table
  /// that two stages hold comes after its copies' gradients were added up.
  void enqueue_gradients(const float* features, const float* targets, StageHooks hooks);

  /// The optimizer for strategies: clipping takes the norm over all ranks of a replica. `optimizer` outlives it.
  RangeOptimizer& shared(RangeOptimizer& optimizer);

  /// Leaves out the sums of tensor parallelism, to time steps without them.
  void silence_tensor(bool silent) {
    if (tensor_) tensor_->silence(silent);
  }
  /// Leaves out all communication within the replica until called with false.
  void silence(bool silent);
  /// Payload bytes that this rank has passed to communicators, of all ranks too, since the last call.
  size_t take_traffic();

  /// Floats of a layer's table of which another stage holds a copy; empty without.
  FloatRange shared_table() const;

 private:
  void connect_tables(Deadline deadline);
  std::vector<FloatRange> counted_ranges() const;

  DividedContext context_;
  MeshPlace place_;
  std::optional<DeviceMesh> mesh_;                  // of a divided model
  std::unique_ptr<Communicator> replica_, tables_;  // of a divided model; of a table that two stages hold
  std::optional<CommunicatorGroup> tensor_;         // with tensor parallelism
  std::unique_ptr<Model> model_;                    // without pipeline stages
  std::unique_ptr<StageRunner> runner_;             // with them
  std::unique_ptr<RangeOptimizer> optimizer_;       // of `shared`
  bool silent_ = false;
};

}  // namespace amdahl
