#include "parallel/plan_memory.h"

#include <algorithm>
#include <tuple>

#include "model/parameter_storage.h"
#include "parallel/data/buckets.h"
#include "parallel/data/ddp.h"
#include "parallel/data/strategy.h"
#include "parallel/pipeline/schedule.h"
#include "parallel/stage_recording.h"
#include "plan/plan_rules.h"
#include "plan/zero_units.h"

namespace amdahl {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

/// What a stage of a division holds; equal stages have the same index among those recorded.
struct RankStage {
  size_t recorded;
  int number;  // in the whole model
};
/// A pipeline rank, as tensor-parallel rank 0.
struct RankPart {
  ModelPart part;
  std::vector<UnitSize> units;  // of gathering and reducing (ZeRO stages 2 and 3), in the order of the layout
  bool has_dense_layers = false;
  std::vector<RankStage> stages;
};

/// Floats of the largest bucket in which the plan's gradients are sent; 0 where they take no memory of their own.
int64_t bucket_floats(const ParallelPlan& plan, const ModelSpec& model, const ModelPart& part) {
  int64_t most = 0;
  if (plan.compress == PlanOptions{}.compress) return most;
  for (const Bucket& bucket : make_buckets(make_layout(model, part), plan)) most = std::max(most, bucket.floats());
  return most;
}

/// Parameters, gradients and optimizer state.
PlanMemory parameter_memory(const ParallelPlan& plan, const ModelSpec& model, const RankPart& rank,
                            int optimizer_arrays) {
  const int stage = zero_stage(plan.strategy);
  const int64_t whole = held_floats(rank.units, 1), held = held_floats(rank.units, plan.mesh.dp);
  PlanMemory memory;
  memory.parameters = whole, memory.gradients = whole;
  memory.optimizer = optimizer_arrays * (stage >= 2 ? held : stage == 1 ? whole / plan.mesh.dp : whole);
  if (stage >= 2)
    memory.gradients = held + plan_gradient_staging(rank.units, rank.has_dense_layers, divides_backward(plan)).floats;
  if (stage == 3) memory.parameters = held + plan_staging(rank.units, kParameterSlots).floats;
  for (int64_t PlanMemory::*part : {&PlanMemory::parameters, &PlanMemory::gradients, &PlanMemory::optimizer})
    memory.*part *= kFloatBytes;
  memory.gradients += plan.virtual_shards > 0 ? ordered_sum_bytes(plan, model)
                                              : sync_bytes(plan, whole, bucket_floats(plan, model, rank.part));
  return memory;
}

/// GEMM workspaces and scratch of the streams on which a GPU computes: layers, gradients of weights, compression. Where
/// a call needs more than a workspace has, the step and the timing of alternatives allocate it.
int64_t gpu_workspace(const ParallelPlan& plan, const ModelSpec& model, const GemmOps& gemm,
                      const GpuScratch& scratch) {
  constexpr int64_t kForGemms = 64 << 20, kScratch = (1 << 20) + (1 << 18) + (1 << 14);  // CudaContext::make_memory
  const bool two = plan.mesh.pp == 1 && gradient_order(model, plan, gemm, true) == GradientOrder::two_streams;
  const bool compresses = plan.mesh.dp > 1 && plan.compress != PlanOptions{}.compress;
  return (1 + two + compresses) * (kForGemms + kScratch) + (scratch.workspace > kForGemms ? 2 * scratch.workspace : 0) +
         scratch.kept;
}

}  // namespace

struct PlanMemories::Parts {
  /// The fields of a plan that say which layers, and which parts of them, a rank has.
  struct Division {
    int tp, pp, stages;
    ScheduleKind schedule;
    int64_t split;
    bool sequence_parallel;
    auto operator<=>(const Division&) const = default;
  };
  /// What else the recording of a stage depends on.
  struct Run {
    size_t stage;
    int64_t recompute;
    bool gathers, accumulates;
    int64_t rows;
    auto operator<=>(const Run&) const = default;
  };
  struct Bytes {
    int64_t slot, shared;
    CpuScratch scratch;
    GpuScratch gpu_scratch;
  };
  using Schedule = std::tuple<ScheduleKind, int, int64_t, int>;

  Parts(const ModelSpec& spec, const MemorySetting& given) : model(spec), setting(given) {
    for (size_t i = 0; i < model.layers.size(); ++i) {
      const auto equals = [&](size_t other) {
        return model.layers[other] == model.layers[i] && model.layer_input_shape(other) == model.layer_input_shape(i);
      };
      size_t first = 0;
      while (!equals(first)) ++first;
      kinds.push_back(static_cast<int>(first));
    }
  }

  const std::vector<RankPart>& ranks_of(const ParallelPlan& plan) {
    const Division division{plan.mesh.tp,      plan.mesh.pp, num_stages(plan),
                            schedule_of(plan), plan.split,   plan.sequence_parallel};
    const auto found = ranks.find(division);
    return found != ranks.end() ? found->second : ranks.emplace(division, make_ranks(plan)).first->second;
  }

  std::vector<RankPart> make_ranks(const ParallelPlan& plan) {
    const int count = plan.mesh.pp;
    std::vector<LayerRange> ranges{{0, model.layers.size()}};
    if (count > 1) ranges = stage_layers(model, num_stages(plan), static_cast<StageSplit>(plan.split));
    StageCase stage{.roles = tensor_roles(model, ranges), .tensor_ranks = plan.mesh.tp};
    if (plan.sequence_parallel) stage.divided_tokens = divided_tokens(model);
    std::vector<RankPart> parts(static_cast<size_t>(count));
    for (int r = 0; r < count; ++r) {
      RankPart& rank = parts[static_cast<size_t>(r)];
      rank.part = {{}, stage.roles, {plan.mesh.tp, 0}};
      for (size_t s = 0; s < ranges.size(); ++s) {
        if (count > 1 && rank_of_stage(schedule_of(plan), count, static_cast<int>(s)) != r) continue;
        rank.part.stages.push_back(ranges[s]);
        stage.layers = ranges[s];
        rank.stages.push_back({index_of(stage), static_cast<int>(s)});
      }
      const ParameterLayout layout = make_layout(model, rank.part);
      rank.units = sizes_of(units_of(layout, 1));
      rank.has_dense_layers = has_dense_layers(layout);
    }
    return parts;
  }

  /// Among the stages to record, of one that is equal in everything that its recording depends on.
  size_t index_of(const StageCase& stage) {
    std::vector<int> key{stage.tensor_ranks, stage.layers.first == 0, stage.layers.last >= model.layers.size()};
    for (size_t i = stage.layers.first; i < std::min(stage.layers.last, model.layers.size()); ++i)
      for (const int value : {kinds[i], static_cast<int>(stage.roles[i]),
                              i > 0 && !stage.divided_tokens.empty() && stage.divided_tokens[i - 1] ? 1 : 0})
        key.push_back(value);
    const auto [found, is_new] = stage_index.try_emplace(std::move(key), stages.size());
    if (is_new) stages.push_back(stage);
    return found->second;
  }

  const Bytes& bytes_of(const Run& run) {
    const auto found = recorded.find(run);
    if (found != recorded.end()) return found->second;
    StageCase stage = stages[run.stage];
    stage.recompute = static_cast<Recompute>(run.recompute);
    stage.gathers_parameters = run.gathers, stage.accumulates = run.accumulates, stage.rows = run.rows;
    const StageRecording all =
        record_stage(model, stage, setting.gpu ? BackendKind::cuda : BackendKind::cpu, setting.math);
    return recorded.emplace(run, Bytes{all.slot_bytes, all.shared_bytes, all.scratch, all.gpu_scratch}).first->second;
  }

  /// Micro-batches in flight in each stage.
  const std::vector<int>& slots_of(const ParallelPlan& plan) {
    const Schedule key{schedule_of(plan), plan.mesh.pp, plan.accumulate, chunks_of(plan)};
    const auto [found, is_new] = slots.try_emplace(key);
    if (is_new)
      found->second = plan.mesh.pp == 1 ? std::vector<int>{1}
                                        : slots_of_stages(schedule_of(plan), plan.mesh.pp,
                                                          static_cast<int>(plan.accumulate), chunks_of(plan));
    return found->second;
  }

  const ModelSpec& model;
  const MemorySetting setting;
  OpRecording unused;
  const std::unique_ptr<Ops> ops = make_recording_ops(BackendKind::cuda, setting.math, unused);  // for their choices
  std::vector<int> kinds;  // of layers: equal ones have equal numbers
  std::map<Division, std::vector<RankPart>> ranks;
  std::vector<StageCase> stages;
  std::map<std::vector<int>, size_t> stage_index;
  std::map<Run, Bytes> recorded;
  std::map<Schedule, std::vector<int>> slots;
};

PlanMemories::PlanMemories(const ModelSpec& model, const MemorySetting& setting)
    : parts_(std::make_unique<Parts>(model, setting)) {}
PlanMemories::~PlanMemories() = default;

PlanMemory PlanMemories::of(const ParallelPlan& plan) {
  const MemorySetting& setting = parts_->setting;
  const int64_t rows = most_micro_batch_rows(plan, plan.strategy == "replicated");
  const std::vector<int>& slots = parts_->slots_of(plan);
  PlanMemory fullest;
  for (const RankPart& rank : parts_->ranks_of(plan)) {
    PlanMemory memory = parameter_memory(plan, parts_->model, rank, setting.optimizer_arrays);
    CpuScratch scratch;  // the stages of a rank compute on one stream
    GpuScratch gpu_scratch;
    for (const RankStage& stage : rank.stages) {
      const auto& bytes =
          parts_->bytes_of({stage.recorded, plan.recompute, zero_stage(plan.strategy) == 3, plan.accumulate > 1, rows});
      memory.activations += bytes.slot * slots[static_cast<size_t>(stage.number)] + bytes.shared;
      scratch.include(bytes.scratch);
      gpu_scratch.include(bytes.gpu_scratch);
    }
    memory.workspace =
        setting.gpu ? gpu_workspace(plan, parts_->model, parts_->ops->gemm(), gpu_scratch) : scratch.total();
    if (memory.total() > fullest.total()) fullest = memory;
  }
  return fullest;
}

PlanMemory plan_memory(const ParallelPlan& plan, const ModelSpec& model, const MemorySetting& setting) {
  return PlanMemories(model, setting).of(plan);
}

}  // namespace amdahl
