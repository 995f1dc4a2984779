#include "plan/plan_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "plan/shards.h"
#include "plan/zero_units.h"

namespace amdahl {
namespace {

Feasibility no(std::string reason) { return {false, std::move(reason)}; }

bool has_blocks(const ModelSpec& model) {
  return std::any_of(model.layers.begin(), model.layers.end(),
                     [](const LayerSpec& layer) { return layer.kind == LayerKind::transformer_block; });
}

Feasibility recompute_acts(const ParallelPlan& plan, const ModelSpec& model) {
  if (plan.recompute == 0 || has_blocks(model)) return {};
  return no(fmt::format("recompute acts on transformer blocks, and '{}' has none", model.name));
}

Feasibility strategy_fits(const ParallelPlan& plan) {
  const Mesh& mesh = plan.mesh;
  const std::string& name = plan.strategy;
  if (name == "single" && mesh.dp > 1) return no(fmt::format("strategy single has dp 1, not {}", mesh.dp));
  if (zero_stage(name) > 0 && mesh.dp == 1)
    return no(fmt::format("{} divides {} among dp ranks, and dp is 1", name,
                          zero_stage(name) == 1   ? "optimizer state"
                          : zero_stage(name) == 2 ? "gradients"
                                                  : "parameters"));
  const bool splits_model = mesh.tp > 1 || mesh.pp > 1;
  if (splits_model && (name == "dp" || name == "replicated"))
    return no(fmt::format("strategy {} does not work with tensor or pipeline parallelism", name));
  return {};
}

Feasibility batch_fits(const ParallelPlan& plan) {
  const bool whole = plan.strategy == "replicated";
  const int64_t least = (whole ? 1 : plan.mesh.dp) * plan.accumulate;
  if (plan.global_batch == 0 || plan.global_batch >= least) return {};
  return no(fmt::format("batch {} is smaller than {} data-parallel ranks x {} micro-batches", plan.global_batch,
                        whole ? 1 : plan.mesh.dp, plan.accumulate));
}

double ratio_steps(int64_t a, int64_t b) {
  return std::abs(std::log2(static_cast<double>(a) / static_cast<double>(b)));
}

/// How much a plan differs from the wanted one; the mesh counts most.
double distance(const ParallelPlan& plan, const ParallelPlan& wanted) {
  const auto changed = [&](auto member) { return plan.*member != wanted.*member ? 1.0 : 0.0; };
  return 100 * (ratio_steps(plan.mesh.dp, wanted.mesh.dp) + ratio_steps(plan.mesh.tp, wanted.mesh.tp) +
                ratio_steps(plan.mesh.pp, wanted.mesh.pp)) +
         ratio_steps(plan.accumulate, wanted.accumulate) + changed(&ParallelPlan::accumulate) +
         3 * changed(&ParallelPlan::split) + 20 * changed(&ParallelPlan::schedule) +
         5 * changed(&ParallelPlan::chunks) + 5 * changed(&ParallelPlan::recompute) +
         5 * changed(&ParallelPlan::sequence_parallel) + 5 * changed(&ParallelPlan::peer_blocks) +
         20 * changed(&ParallelPlan::local_sgd) + 20 * changed(&ParallelPlan::compress) +
         20 * changed(&ParallelPlan::async_steps) + 20 * changed(&ParallelPlan::virtual_shards) +
         10 * changed(&ParallelPlan::shares) + 8 * (plan.strategy != wanted.strategy ? 1.0 : 0.0);
}

/// Micro-batches to try: the wanted number, its neighbours among the multiples of the ranks, and the most that the
/// batch has rows for.
std::set<int64_t> near_micro_batches(const ParallelPlan& plan) {
  const int64_t ranks = plan.mesh.pp, wanted = plan.accumulate, below = wanted / ranks * ranks;
  std::set<int64_t> all{wanted, std::max(below, ranks), below + ranks};
  if (plan.global_batch > 0) {
    const int64_t most = std::max<int64_t>(1, plan.global_batch / plan.mesh.dp);
    all.insert({most, std::max<int64_t>(1, most / ranks * ranks)});
  }
  return all;
}

/// Calls visit(mesh) for every mesh of so many devices.
template <class Visit>
void for_each_mesh(int devices, const Visit& visit) {
  for (int pp = 1; pp <= devices; ++pp) {
    if (devices % pp != 0) continue;
    for (int tp = 1; tp <= devices / pp; ++tp)
      if (devices / pp % tp == 0) visit(Mesh{devices / pp / tp, tp, pp});
  }
}

const char* usual_strategy(const Mesh& mesh) { return mesh.dp > 1 ? "ddp" : "single"; }

/// Leaves out numbers near a smaller one where there are many.
void thin_out(std::vector<int64_t>& numbers) {
  constexpr size_t kMany = 24;
  constexpr double kApart = 1.4;
  if (numbers.size() <= kMany) return;
  std::vector<int64_t> kept;
  for (const int64_t number : numbers)
    if (kept.empty() || static_cast<double>(number) >= kApart * static_cast<double>(kept.back()))
      kept.push_back(number);
  if (kept.back() != numbers.back()) kept.push_back(numbers.back());
  numbers = std::move(kept);
}

std::vector<int64_t> micro_batches_of(const PlanQuery& query, const Mesh& mesh) {
  std::vector<int64_t> all;
  if (query.all_micro_batches) {
    const int64_t rows = query.global_batch / mesh.dp;
    for (int64_t number = 1; number * number <= rows && query.global_batch % mesh.dp == 0; ++number) {
      if (rows % number != 0) continue;
      all.push_back(number);
      if (number * number != rows) all.push_back(rows / number);
    }
    std::sort(all.begin(), all.end());
    thin_out(all);
  } else if (mesh.pp == 1) {
    all = {query.options.accumulate};
  } else {
    for (const int64_t per_rank : query.micro_batches_per_rank) all.push_back(per_rank * mesh.pp);
  }
  return all;
}

/// Pipeline stages per rank to try.
std::vector<int64_t> chunks_to_try(const PlanQuery& query, const ParallelPlan& plan) {
  constexpr int64_t kMoreChunks = 4;
  std::vector<int64_t> all{query.options.chunks};
  if (query.all_options && plan.mesh.pp > 1 && schedule_of(plan) == ScheduleKind::interleaved)
    all.push_back(kMoreChunks);
  return all;
}

/// Adds a feasible plan, or with `all_options` every choice of those that never make a plan infeasible.
void add_options(ParallelPlan plan, const PlanQuery& query, const ModelSpec& model, std::vector<ParallelPlan>& plans) {
  if (!query.all_options) return plans.push_back(plan);
  constexpr int64_t kMib = 1 << 20;
  for (const Recompute recompute : {Recompute::none, Recompute::block, Recompute::selective}) {
    if (recompute != Recompute::none && !has_blocks(model)) continue;
    plan.recompute = static_cast<int64_t>(recompute);
    plans.push_back(plan);
    if (plan.mesh.dp == 1) continue;
    ParallelPlan other = plan;
    other.overlap = false;
    plans.push_back(other);
    other.overlap = true;
    for (const int64_t bucket_bytes : {5 * kMib, 100 * kMib}) {
      other.bucket_bytes = bucket_bytes;
      plans.push_back(other);
    }
  }
}

}  // namespace

ScheduleKind schedule_of(const PlanOptions& options) { return schedule_kinds()[static_cast<size_t>(options.schedule)]; }

int chunks_of(const PlanOptions& options) {
  return options.chunks > 0 ? static_cast<int>(options.chunks) : least_chunks(schedule_of(options));
}

int num_stages(const ParallelPlan& plan) { return plan.mesh.pp == 1 ? 1 : plan.mesh.pp * chunks_of(plan); }

bool divides_backward(const ParallelPlan& plan) { return plan.mesh.pp > 1 && splits_backward(schedule_of(plan)); }

Feasibility fields_act(const ParallelPlan& plan) {
  if (plan.mesh.pp == 1)
    for (const PlanField& field : plan_fields())
      if ((field.name == "schedule" || field.name == "chunks" || field.name == "split") &&
          text_of(field, plan) != text_of(field, {}))
        return no(fmt::format("{}={} acts on pipeline stages, and pp is 1", field.word, text_of(field, plan)));
  if (plan.sequence_parallel && plan.mesh.tp == 1) return no("sp divides tokens among tp ranks, and tp is 1");
  if (plan.peer_blocks != 0 && plan.strategy != "zero1") return no("peer-blocks acts on strategy zero1 alone");
  return {};
}

Feasibility plan_feasible(const ParallelPlan& plan, const ModelSpec& model) {
  const Mesh& mesh = plan.mesh;
  if (mesh.dp < 1 || mesh.tp < 1 || mesh.pp < 1) return no(fmt::format("the mesh is {}", mesh_text(mesh)));
  for (const Feasibility& part :
       {fields_act(plan), recompute_acts(plan, model), strategy_fits(plan), batch_fits(plan), sync_fields_fit(plan)})
    if (!part.ok) return part;
  std::vector<LayerRange> stages;
  if (mesh.pp > 1) {
    if (Feasibility fits =
            schedule_feasible(schedule_of(plan), mesh.pp, static_cast<int>(plan.accumulate), chunks_of(plan));
        !fits.ok)
      return fits;
    const auto split = static_cast<StageSplit>(plan.split);
    if (Feasibility fits = stages_feasible(model, num_stages(plan), split); !fits.ok) return fits;
    stages = stage_layers(model, num_stages(plan), split);
  }
  const std::vector<TensorRole> roles = tensor_roles(model, stages);
  if (mesh.tp > 1 && std::all_of(roles.begin(), roles.end(), [](TensorRole r) { return r == TensorRole::whole; }))
    return no(fmt::format("tensor parallelism divides no layer of '{}': tp is at most 1", model.name));
  if (plan.sequence_parallel)
    if (Feasibility fits = sequence_feasible(model); !fits.ok) return fits;
  return tensor_feasible(model, mesh.tp, stages);
}

std::optional<ParallelPlan> nearest_plan(const ParallelPlan& plan, const ModelSpec& model) {
  return nearest_plan(plan, model, plan.num_devices());
}

std::optional<ParallelPlan> nearest_plan(const ParallelPlan& plan, const ModelSpec& model, int devices) {
  std::optional<ParallelPlan> best;
  const bool sequence = sequence_feasible(model).ok;
  for_each_mesh(devices, [&](const Mesh& mesh) {
    ParallelPlan near = plan;
    near.mesh = mesh;
    for (const std::string& strategy : std::set<std::string>{plan.strategy, usual_strategy(mesh)})
      for (const int64_t schedule : std::set<int64_t>{plan.schedule, PlanOptions{}.schedule})
        for (const int64_t split : std::set<int64_t>{plan.split, 0, 1})
          for (const int64_t chunks : std::set<int64_t>{plan.chunks, 0})
            for (const int64_t recompute : std::set<int64_t>{plan.recompute, 0})
              for (const int64_t micro_batches : near_micro_batches(near)) {
                ParallelPlan tried = near;
                tried.sequence_parallel = plan.sequence_parallel && mesh.tp > 1 && sequence;
                tried.strategy = strategy;
                tried.schedule = schedule, tried.split = split, tried.chunks = chunks, tried.recompute = recompute;
                tried.accumulate = micro_batches;
                if (strategy != "zero1") tried.peer_blocks = 0;
                if (!sync_fields_fit(tried).ok) tried.shares = kEqualShares;
                if (!sync_fields_fit(tried).ok) static_cast<PlanOptions&>(tried) = plain_sync(tried);
                if (best && distance(tried, plan) >= distance(*best, plan)) continue;
                if (plan_feasible(tried, model).ok) best = tried;
              }
  });
  return best;
}

void require_plan_feasible(const ParallelPlan& plan, const ModelSpec& model) {
  const Feasibility feasible = plan_feasible(plan, model);
  if (feasible.ok) return;
  const std::optional<ParallelPlan> nearest = nearest_plan(plan, model);
  throw Error(Cause::usage, fmt::format("plan {}: {}", format_plan(plan), feasible.reason),
              nearest ? fmt::format("the nearest plan that works is {}", format_plan(*nearest))
                      : "fewer devices, or a larger batch");
}

std::vector<ParallelPlan> enumerate_plans(const ModelSpec& model, const PlanQuery& query) {
  std::vector<ParallelPlan> plans;
  for_each_mesh(query.num_devices, [&](const Mesh& mesh) {
    std::vector<std::string> strategies{usual_strategy(mesh)};
    if (query.all_strategies && mesh.dp > 1) strategies.emplace_back("zero1");
    if (query.all_zero_stages && mesh.dp > 1) strategies.insert(strategies.end(), {"zero2", "zero3"});
    std::vector<std::pair<std::string, bool>> variants;  // strategy, sequence parallelism
    const std::vector<int64_t> micro_batches = micro_batches_of(query, mesh);
    for (const std::string& strategy : strategies) {
      variants.emplace_back(strategy, query.options.sequence_parallel);
      if (query.with_sequence && mesh.tp > 1 && !query.options.sequence_parallel) variants.emplace_back(strategy, true);
    }
    for (const auto& [strategy, sequence] : variants) {
      ParallelPlan plan{query.options, strategy, mesh, query.global_batch};
      plan.sequence_parallel = sequence;
      for (size_t kind = 0; kind < schedule_kinds().size(); ++kind) {
        if (static_cast<int64_t>(kind) != query.options.schedule && (mesh.pp == 1 || !query.all_schedules)) continue;
        plan.schedule = static_cast<int64_t>(kind);
        for (const int64_t chunks : chunks_to_try(query, plan))
          for (const int64_t number : micro_batches) {
            plan.chunks = chunks, plan.accumulate = number;
            plan.split = query.options.split;
            if (query.all_options && mesh.pp > 1 && !stages_feasible(model, num_stages(plan), StageSplit::blocks).ok)
              plan.split = static_cast<int64_t>(StageSplit::flops);
            if (plan_feasible(plan, model).ok) add_options(plan, query, model, plans);
          }
      }
    }
  });
  return plans;
}

}  // namespace amdahl
