// ZeRO stages 2 and 3 as data (Rajbhandari et al., 2020): the units in which parameters are gathered and gradients
// reduced, and what each data-parallel rank keeps of them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace amdahl {

/// What a strategy divides among data-parallel ranks. 0: nothing; 1: optimizer state; 2: gradients too; 3: parameters
/// too.
int zero_stage(std::string_view strategy);

/// A run of floats divided among ranks: a short front that all ranks hold, then one part per rank. Parts have equal
/// sizes in whole cache lines.
struct UnitParts {
  int64_t front = 0, part = 0;  // floats
  int64_t held() const { return front + part; }
};
UnitParts divide_unit(int64_t floats, int num_ranks);

/// A run of parameters that is gathered, and whose gradients are reduced, at once: a layer, or a table that two layers
/// share.
struct UnitSize {
  int64_t floats = 0;
  bool is_pinned = false;  // has staging memory of its own: it is needed by layers far apart
};

/// Floats of all units that one rank keeps.
int64_t held_floats(const std::vector<UnitSize>& units, int num_ranks);

/// Memory for whole units while a layer computes: units take `slots` places in turn.
struct StagingPlan {
  std::vector<int64_t> begin;  // of each unit, floats of the staging memory
  std::vector<int> slot;       // of each unit; pinned units have their own, after the others
  int num_slots = 0;
  int64_t floats = 0;
};
StagingPlan plan_staging(const std::vector<UnitSize>& units, int slots);

/// Places of gathered parameters: the layer that computes, and the next one.
inline constexpr int kParameterSlots = 2;
/// Places of gradients: the layer that computes, one whose gradients are being reduced, and with dense layers the one
/// below, whose bias gradient the layer above computes.
inline constexpr int gradient_slots(bool has_dense_layers) { return has_dense_layers ? 3 : 2; }

/// Places of gradients during backward. `held_whole`: pipeline schedules that divide backward compute gradients of
/// inputs and of weights at different times, with other layers in between: every unit has memory of its own.
StagingPlan plan_gradient_staging(std::vector<UnitSize> units, bool has_dense_layers, bool held_whole);

}  // namespace amdahl
