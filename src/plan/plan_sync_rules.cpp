// Rules of the fields that say how data-parallel ranks share rows and gradients.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "plan/compressed_blocks.h"
#include "plan/plan_rules.h"
#include "plan/shares.h"

namespace amdahl {
namespace {

constexpr int64_t kF32Bytes = sizeof(float);

Feasibility refused(std::string reason) { return {false, std::move(reason)}; }

/// Texts of the fields that replace the sum of whole gradients.
std::vector<std::string> replaced_sums(const PlanOptions& o) {
  std::vector<std::string> texts;
  if (o.local_sgd > 0) texts.push_back(fmt::format("local{}", o.local_sgd));
  for (const PlanField& field : plan_fields())
    if (field.name == "compress" && o.compress > 0) texts.push_back("compress=" + text_of(field, o));
  if (o.async_steps > 0) texts.push_back(fmt::format("async{}", o.async_steps));
  if (o.virtual_shards > 0 && !texts.empty()) texts.push_back(fmt::format("shards{}", o.virtual_shards));
  return texts;
}

Feasibility shares_fit(const ParallelPlan& plan) {
  if (plan.shares == kEqualShares) return {};
  const std::string text = "shares=" + shares_text(plan.shares);
  if (plan.strategy == "single" || plan.strategy == "replicated")
    return refused(fmt::format("{}: strategy {} does not divide the rows", text, plan.strategy));
  if (plan.local_sgd > 0)
    return refused(fmt::format("{} with local{}: averages count every rank alike", text, plan.local_sgd));
  if (plan.shares == kAutoShares && (plan.mesh.tp > 1 || plan.mesh.pp > 1))
    return refused("shares=auto measures devices that hold a whole model, and tp or pp is above 1");
  if (plan.mesh.dp > 8)
    return refused(fmt::format("{} is for at most 8 data-parallel ranks, not {}", text, plan.mesh.dp));
  if (plan.mesh.dp == 1) return refused(fmt::format("{} acts on the data axis, and dp is 1", text));
  const std::vector<int> given = unpack_shares(plan.shares);
  if (std::find(given.begin(), given.end(), 0) != given.end())
    return refused(fmt::format("{} gives a rank no rows", text));
  const size_t weights = given.size();
  if (plan.shares != kAutoShares && weights != static_cast<size_t>(plan.mesh.dp))
    return refused(fmt::format("{} has {} weights, and dp is {}", text, weights, plan.mesh.dp));
  if (plan.global_batch > 0 && fewest_data_rows(plan) < plan.accumulate)
    return refused(fmt::format("{} of batch {} leaves a rank {} rows for {} micro-batches", text, plan.global_batch,
                               fewest_data_rows(plan), plan.accumulate));
  return {};
}

Feasibility virtual_shards_fit(const ParallelPlan& plan) {
  if (plan.virtual_shards == 0) return {};
  const std::string text = fmt::format("shards{}", plan.virtual_shards);
  if (plan.strategy != "ddp" && plan.strategy != "single")
    return refused(
        fmt::format("{} adds whole gradients, as strategy ddp, and the strategy is {}", text, plan.strategy));
  if (plan.mesh.tp > 1 || plan.mesh.pp > 1)
    return refused(fmt::format("{} does not work with tensor or pipeline parallelism", text));
  if (plan.accumulate > 1)
    return refused(fmt::format("{} are the micro-batches, and {} are given", text, plan.accumulate));
  if (plan.shares != kEqualShares) return refused(fmt::format("{} and shares exclude each other", text));
  if (plan.virtual_shards < plan.mesh.dp)
    return refused(fmt::format("{} leaves some of {} devices none", text, plan.mesh.dp));
  if (plan.global_batch > 0 && plan.global_batch < plan.virtual_shards)
    return refused(fmt::format("batch {} is smaller than {} virtual shards, see `virtual-shards`", plan.global_batch,
                               plan.virtual_shards));
  return {};
}

}  // namespace

bool keeps_feedback(const PlanOptions& options) {
  const auto kind = static_cast<Compression>(options.compress);
  return kind == Compression::int8 || kind == Compression::topk;
}

Feasibility sync_fields_fit(const ParallelPlan& plan) {
  std::vector<std::string> replaced = replaced_sums(plan);
  if (plan.keep_ppm != PlanOptions{}.keep_ppm && plan.compress != static_cast<int64_t>(Compression::topk))
    return refused("keep acts on compress=topk alone");
  if (replaced.size() > 1) return refused(fmt::format("{} and {} exclude each other", replaced[0], replaced[1]));
  if (!replaced.empty() && plan.mesh.dp == 1)
    return refused(fmt::format("{} acts on the data axis, and dp is 1", replaced[0]));
  if (!replaced.empty() && plan.strategy != "ddp")
    return refused(
        fmt::format("{} replaces the sum of strategy ddp, and the strategy is {}", replaced[0], plan.strategy));
  const bool halves = plan.compress > 0 && !keeps_feedback(plan);
  if (!replaced.empty() && !halves && (plan.mesh.tp > 1 || plan.mesh.pp > 1))
    return refused(fmt::format("{} does not work with tensor or pipeline parallelism", replaced[0]));
  if (Feasibility fits = virtual_shards_fit(plan); !fits.ok) return fits;
  return shares_fit(plan);
}

int64_t sync_bytes(const ParallelPlan& plan, int64_t gradient_floats, int64_t bucket_floats) {
  if (plan.mesh.dp == 1 || plan.strategy != "ddp") return 0;
  if (plan.async_steps > 0) return (plan.async_steps + 1) * gradient_floats * kF32Bytes;
  switch (static_cast<Compression>(plan.compress)) {
    case Compression::fp16:
    case Compression::bf16:
      return bucket_floats * kF32Bytes / 2;
    case Compression::int8:
      return gradient_floats * kF32Bytes +
             2 * plan.mesh.dp * int8_message_bytes(int8_chunk(bucket_floats, plan.mesh.dp));
    case Compression::topk:
      return gradient_floats * kF32Bytes + (1 + plan.mesh.dp) * topk_message_bytes(bucket_floats, plan.keep_ppm);
    case Compression::none:
      break;
  }
  return 0;
}

PlanOptions plain_sync(PlanOptions options) {
  const PlanOptions plain;
  options.local_sgd = plain.local_sgd, options.compress = plain.compress, options.keep_ppm = plain.keep_ppm;
  options.async_steps = plain.async_steps, options.shares = plain.shares;
  options.virtual_shards = plain.virtual_shards;
  return options;
}

}  // namespace amdahl
