// UnitSync: ZeRO stages 2 and 3 (Rajbhandari et al., 2020). A rank keeps its part of the gradients of every unit (see
// ParameterStorage), with stage 3 of the parameters too.
//
// Stage 2: when a layer's backward pass is done, the gradients of its unit, in staging memory, are reduced to the ranks
// that keep their parts, which add them up over micro-batches. After the last one a rank updates its part of the
// parameters, and all ranks gather the new ones.
//
// Stage 3: a unit's parameters are gathered before the layer's forward pass and again before its backward pass, one
// layer ahead, and their memory serves the next unit but one. Nothing is gathered after an update.
//
// Schedules that divide backward (DataShards::held_whole) compute a layer's gradients at two times: they are added up
// over micro-batches in staging memory, where every unit has its place, and are reduced once.
//
// All of this runs on the communication stream. A unit's short front (see UnitParts) is all-reduced and updated by
// every rank. Not thread-safe: one per rank.
#pragma once

#include <memory>
#include <vector>

#include "model/parameter_storage.h"
#include "parallel/data/strategy.h"

namespace amdahl {

/// Which unit the places of staging memory hold.
class StagedUnits {
 public:
  explicit StagedUnits(const StagingPlan& plan) : plan_(plan) { forget(); }
  void forget() { held_.assign(static_cast<size_t>(plan_.num_slots), SIZE_MAX); }
  bool has(size_t unit) const { return held_[place(unit)] == unit; }
  void put(size_t unit) { held_[place(unit)] = unit; }
  size_t place(size_t unit) const { return static_cast<size_t>(plan_.slot[unit]); }

 private:
  StagingPlan plan_;
  std::vector<size_t> held_;
};

class UnitSync final : public GradientSync, private LayerGate {
 public:
  explicit UnitSync(const SyncContext& context);
  ~UnitSync() override { storage_.gate = nullptr; }
  UnitSync(const UnitSync&) = delete;
  UnitSync& operator=(const UnitSync&) = delete;

  void begin_pass(bool communicates, StepStamps* stamps) override;
  void begin_step(const BatchView& full, float* staged_features, float* staged_targets) override;
  /// Only of gradients that SyncContext::late names.
  void gradient_ready(int64_t begin, int64_t end, Stream& stream, StepStamps* stamps) override;
  void finish_step(StepStamps* stamps) override;
  void update_alone() override;
  void end_pass() override { join(); }

 private:
  /// State of a place of staging memory. `used`, `reduced`: the last work on it; valid once marked in this step.
  struct Place {
    std::unique_ptr<Event> gathered, used, reduced;
    bool was_used = false, was_reduced = false;
    size_t unmet = SIZE_MAX;  // the collective that the compute stream has not waited for
  };

  void before(Stream& stream, const GatedLayer& at) override;
  void after(Stream& stream, const GatedLayer& at) override;
  void wait_for_gradients(Stream& stream, int64_t at) override;

  void gather_layer(Stream& stream, const GatedLayer& at);
  void gather_ahead(const GatedLayer& at);
  void gather(size_t unit);
  void open(Stream& stream, size_t layer);
  void reduce(Stream& stream, size_t unit, bool first, bool last);
  void reduce_range(const FloatRange& range, bool scatters, bool first);
  void update_unit(Stream& stream, size_t unit);
  void update_and_gather(size_t unit);
  void clip_and_update();
  void join();
  FloatRange front(size_t unit) const;
  FloatRange mine(size_t unit) const;
  bool is_late(size_t unit) const;
  /// Starts the stamps of a collective; returns its number.
  size_t begin_collective(int64_t bytes);
  void end_collective(size_t order);
  void stall(Stream& stream, size_t order, Event& event);

  SyncContext context_;
  ParameterStorage& storage_;
  const bool gathers_;  // parameters: stage 3
  std::vector<std::vector<size_t>> units_of_layer_;
  std::vector<std::vector<FloatRange>> gaps_;  // by unit
  StagedUnits staged_;
  std::vector<Place> param_places_, grad_places_;
  std::vector<bool> is_open_;    // by unit: its place of gradients is ready to be written
  std::vector<int64_t> passes_;  // by unit, in this step: backward passes that completed its gradients
  std::unique_ptr<Event> begun_, done_;
  std::vector<std::unique_ptr<Event>> ready_;  // by unit
  StepStamps* stamps_ = nullptr;
  size_t num_collectives_ = 0;  // stamped in this step
  bool communicates_ = true;
};

}  // namespace amdahl
