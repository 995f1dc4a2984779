#include "train/device_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "amdahl/error.h"
#include "comm/communicator.h"
#include "parallel/plan_memory.h"
#include "plan/plan_rules.h"
#include "plan/zero_units.h"
#include "train/optimizer.h"

namespace amdahl {
namespace {

constexpr int64_t kF32 = sizeof(float);

std::string bytes_text(int64_t bytes) { return format_bytes(static_cast<double>(bytes)); }

bool has_blocks(const ModelSpec& model) {
  return std::any_of(model.layers.begin(), model.layers.end(),
                     [](const LayerSpec& layer) { return layer.kind == LayerKind::transformer_block; });
}

/// What of this plan could be changed to need less.
std::string remedies(const TrainerOptions& options, BackendKind backend, const MemoryParts& parts) {
  const ParallelPlan& plan = options.plan;
  std::vector<std::string> all;
  if (plan.local_rows() > 1) all.emplace_back("a smaller batch");
  if (plan.local_rows() > 1 && parts.activations > parts.total() / 2) all.emplace_back("`accumulate`");
  if (has_blocks(options.model) && plan.recompute != static_cast<int64_t>(Recompute::block))
    all.emplace_back("`recompute=block`");
  if (backend == BackendKind::cuda && !options.model.is_mlp()) all.emplace_back("`math=bf16`");
  if (plan.mesh.dp > 1 && zero_stage(plan.strategy) < 3)
    all.emplace_back(zero_stage(plan.strategy) == 0 ? "`strategy=zero1`" : "`strategy=zero3`");
  all.emplace_back(backend == BackendKind::cuda ? "a smaller model" : "fewer devices or a smaller model");
  return fmt::format("{}", fmt::join(all, ", "));
}

}  // namespace

bool has_unaligned_images(const ModelSpec& model) {
  return model.input_shape.size() == 3 && model.input_width % 4 != 0;
}

MemoryParts trainer_memory(const TrainerOptions& options, BackendKind backend, MathMode math) {
  const StrategyRow& row = find_strategy(options.plan.strategy);
  const ModelSpec& model = options.model;
  const PlanMemory memory =
      plan_memory(options.plan, model, {num_state_arrays(options.hyper), math, backend == BackendKind::cuda});
  MemoryParts parts{memory.parameters, memory.gradients, memory.optimizer, memory.activations, memory.workspace, 0};
  if (row.data_on_root) parts.data = most_data_rows(options.plan) * (model.input_width + model.target_width()) * kF32;
  if (has_unaligned_images(model))
    parts.data += most_micro_batch_rows(options.plan, row.full_batch_everywhere) * model.input_width * kF32;
  return parts;
}

MemoryParts with_groups(MemoryParts parts, const TrainerOptions& options, const Communicator& world) {
  const ParallelPlan& plan = options.plan;
  const Mesh& mesh = plan.mesh;
  if (mesh.tp == 1 && mesh.pp == 1) return parts;
  for (const int ranks : {mesh.dp, mesh.tp, mesh.pp, mesh.tp * mesh.pp}) parts.workspace += world.device_bytes(ranks);
  if (mesh.pp == 1) return parts;
  // A communicator per direction of every boundary of this rank's stages, and one for a table that two stages hold.
  const int boundaries = std::min(2 * chunks_of(plan), num_stages(plan) - 1);
  const int pairs = 2 * boundaries + (options.model.layers.back().tied ? 1 : 0);
  parts.workspace += pairs * world.device_bytes(2);
  return parts;
}

std::string memory_text(const MemoryParts& parts) {
  return fmt::format("parameters {}, gradients {}, optimizer {}, activations {}, workspace {}, data {}",
                     bytes_text(parts.parameters), bytes_text(parts.gradients), bytes_text(parts.optimizer),
                     bytes_text(parts.activations), bytes_text(parts.workspace), bytes_text(parts.data));
}

std::optional<Error> lacking_memory(Device& device, int sharing, const TrainerOptions& options,
                                    const MemoryParts& parts) {
  const int64_t free = device.free_bytes();
  if (parts.total() <= free / sharing) return std::nullopt;
  const ParallelPlan& plan = options.plan;
  const std::string rows = fmt::format("{} row{} per device", plan.local_rows(), plan.local_rows() == 1 ? "" : "s");
  return Error(Cause::out_of_memory,
               fmt::format("model '{}' with {} needs {} ({}), and {} has {} free{}", options.model.name, rows,
                           bytes_text(parts.total()), memory_text(parts), device.spec().name, bytes_text(free),
                           sharing > 1 ? fmt::format(" for {} devices", sharing) : ""),
               remedies(options, device.backend(), parts));
}

void require_device_memory(Device& device, int sharing, const TrainerOptions& options, const MemoryParts& parts) {
  if (const std::optional<Error> lack = lacking_memory(device, sharing, options, parts)) throw *lack;
}

}  // namespace amdahl
