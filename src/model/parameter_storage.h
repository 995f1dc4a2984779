// ParameterStorage: the memory of a rank's parameters and gradients, which the models of its pipeline stages share.
//
// Without ZeRO stages 2 and 3 both are arrays of the whole layout. With them, a rank keeps its part of every unit (a
// layer, or a table that two layers share), and layers read and write whole units in staging memory, in which they take
// turns. A LayerGate, called around every layer, brings units there and takes them away.
#pragma once

#include <memory>
#include <vector>

#include "device/device.h"
#include "model/parameter_layout.h"
#include "plan/zero_units.h"

namespace amdahl {

/// A unit of gathering and reducing, see UnitSize.
struct ParameterUnit {
  FloatRange floats;  // of the layout
  size_t layer = 0;   // whose backward pass completes the gradients
  bool is_pinned = false;
  UnitParts parts;
  int64_t held = 0;  // floats before its front and part in arrays of what a rank keeps
};

/// The units of a layout in the order of its floats.
std::vector<ParameterUnit> units_of(const ParameterLayout& layout, int num_ranks);
std::vector<UnitSize> sizes_of(const std::vector<ParameterUnit>& units);
/// Whether some of the layers are dense ones.
bool has_dense_layers(const ParameterLayout& layout);
/// The units that a layer reads, as indices into `units`.
std::vector<size_t> units_of_layer(const ParameterLayout& layout, const std::vector<ParameterUnit>& units,
                                   size_t layer);
/// Ascending ranges of the layout that `rank` keeps: the fronts of all units and its parts.
std::vector<FloatRange> held_ranges(const std::vector<ParameterUnit>& units, int rank);

/// What data-parallel ranks divide.
struct DataShards {
  int num_ranks = 1, rank = 0;
  bool gradients = false, parameters = false;
  /// Gradients of units are whole in staging memory until all micro-batches have been added to them: for passes that
  /// compute gradients of inputs and of weights at different times.
  bool held_whole = false;
};

/// A layer of a pass over layers [first, last).
struct GatedLayer {
  size_t layer = 0, first = 0, last = 0;
  bool backward = false;
  bool reads = true;      // its parameters
  bool completes = true;  // backward: its gradients of this micro-batch
};

/// Called around the work of every layer; not null with ZeRO stages 2 and 3. All work is enqueued on `stream`.
class LayerGate {
 public:
  virtual ~LayerGate() = default;
  virtual void before(Stream& stream, const GatedLayer& at) = 0;
  virtual void after(Stream& stream, const GatedLayer& at) = 0;
  /// Makes `stream` wait until the gradients of the unit at float `at`, as enqueued so far, are in owned_grad.
  virtual void wait_for_gradients(Stream& stream, int64_t at) = 0;
};

class ParameterStorage {
 public:
  ParameterStorage(Device& device, ParameterLayout placed, const DataShards& shards = {});

  const ParameterLayout layout;
  const DataShards shards;
  const std::vector<ParameterUnit> units;  // empty where nothing is divided
  std::shared_ptr<Buffer> params, grads;   // of the whole layout, or of what this rank keeps
  std::unique_ptr<Buffer> step;
  LayerGate* gate = nullptr;

  /// Where a layer reads the parameter at float `at` of the layout, and writes its gradient; null for a layer without
  /// parameters.
  float* layer_param(int64_t at) const { return staged(params, param_staging_, param_plan_, at); }
  float* layer_grad(int64_t at) const { return staged(grads, grad_staging_, grad_plan_, at); }
  /// Where this rank keeps them. Error{internal} for one that it does not keep.
  float* owned_param(int64_t at) const { return kept(params, shards.parameters, at); }
  float* owned_grad(int64_t at) const { return kept(grads, shards.gradients, at); }

  size_t unit_at(int64_t at) const;  // units.size() where no unit is
  const StagingPlan& param_plan() const { return param_plan_; }
  const StagingPlan& grad_plan() const { return grad_plan_; }

  /// Ranges of a unit's gradients that no layer writes, or not all of: padding, positions and token types. They must be
  /// zero.
  std::vector<FloatRange> gaps(size_t unit) const;
  /// What this rank keeps of an array of the whole layout, on the host.
  std::vector<float> held_of(const std::vector<float>& whole) const;
  void fill_zero(Stream& stream);  // gradients, staging memory and step

 private:
  float* staged(const std::shared_ptr<Buffer>& whole, const std::unique_ptr<Buffer>& staging, const StagingPlan& plan,
                int64_t at) const;
  float* kept(const std::shared_ptr<Buffer>& array, bool is_divided, int64_t at) const;

  Device& device_;
  StagingPlan param_plan_, grad_plan_;
  std::unique_ptr<Buffer> param_staging_, grad_staging_;
};

}  // namespace amdahl
