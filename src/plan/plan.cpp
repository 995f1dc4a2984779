#include "amdahl/plan.h"

#include <fmt/format.h>

#include "amdahl/error.h"
#include "base/number_text.h"
#include "plan/pipeline_kinds.h"

namespace amdahl {
namespace {

std::vector<std::string_view> schedule_names() {
  std::vector<std::string_view> names;
  for (const ScheduleKind kind : schedule_kinds()) names.push_back(to_string(kind));
  return names;
}

}  // namespace

std::string_view to_string(BackendKind kind) { return kind == BackendKind::cpu ? "cpu" : "cuda"; }
std::string_view to_string(LaunchMode mode) { return mode == LaunchMode::eager ? "eager" : "graph"; }
std::string_view to_string(MathMode mode) {
  switch (mode) {
    case MathMode::tf32:
      return "tf32";
    case MathMode::bf16:
      return "bf16";
    case MathMode::fp16:
      return "fp16";
    case MathMode::fp32:
      break;
  }
  return "fp32";
}
std::string_view to_string(Scaling scaling) { return scaling == Scaling::strong ? "strong" : "weak"; }

const std::vector<PlanField>& plan_fields() {
  constexpr int64_t kMib = 1 << 20, kMillion = 1'000'000;
  static const std::vector<PlanField> kFields{
      {.name = "accumulate",
       .word = "accumulate",
       .help = "Micro-batches per optimizer step",
       .member = &PlanOptions::accumulate,
       .least = 1,
       .most = 1 << 30,
       .of_several = false,
       .prefix = "m",
       .words =
           [](const PlanOptions& o) {
             return fmt::format("{} micro-batch{}", o.accumulate, o.accumulate == 1 ? "" : "es");
           }},
      {.name = "overlap",
       .word = "no-overlap",
       .help = "All-reduce after backward instead of during it",
       .member = &PlanOptions::overlap,
       .words = [](const PlanOptions& o) { return std::string(o.overlap ? "overlap" : "no overlap"); }},
      {.name = "bucket_bytes",
       .word = "bucket-mb",
       .help = "All-reduce bucket size in MiB",
       .member = &PlanOptions::bucket_bytes,
       .least = 1,
       .most = kMib * kMib,
       .option_unit = kMib,
       .unit_name = "MiB",
       .example = "25",
       .words = [](const PlanOptions& o) { return fmt::format("buckets of {}", binary_bytes(o.bucket_bytes)); }},
      {.name = "recompute",
       .word = "recompute",
       .help = "Activations of transformer blocks to compute again in backward instead of keeping them: none, block "
               "(all but its input) or selective (all but attention)",
       .member = &PlanOptions::recompute,
       .most = 2,
       .of_several = false,
       .is_omitted = true,
       .choices = {"none", "block", "selective"},
       .words =
           [](const PlanOptions& o) {
             constexpr const char* kWords[] = {"no recomputation", "recomputed blocks", "selective recomputation"};
             return std::string(kWords[o.recompute]);
           }},
      {.name = "sequence_parallel",
       .word = "sp",
       .help = "Sequence parallelism: tensor-parallel ranks divide the tokens of normalisations and additions",
       .member = &PlanOptions::sequence_parallel,
       .is_omitted = true,
       .words =
           [](const PlanOptions& o) { return std::string(o.sequence_parallel ? "divided tokens" : "whole tokens"); }},
      {.name = "schedule",
       .word = "schedule",
       .help = "Order of micro-batches over pipeline stages: gpipe, 1f1b, interleaved, zb-h1 or zb-v",
       .member = &PlanOptions::schedule,
       .most = static_cast<int64_t>(schedule_kinds().size()) - 1,
       .is_omitted = true,
       .is_bare = true,
       .choices = schedule_names(),
       .words = [](const PlanOptions& o) { return std::string(schedule_names()[static_cast<size_t>(o.schedule)]); }},
      {.name = "chunks",
       .word = "chunks",
       .help = "Pipeline stages per device, 0: the fewest of the schedule",
       .member = &PlanOptions::chunks,
       .most = 1 << 10,
       .is_omitted = true,
       .prefix = "v",
       .words =
           [](const PlanOptions& o) {
             return o.chunks == 0 ? std::string("fewest chunks")
                                  : fmt::format("{} chunk{} per device", o.chunks, o.chunks == 1 ? "" : "s");
           }},
      {.name = "split",
       .word = "split",
       .help = "Layers of the pipeline stages: blocks (as many transformer blocks in each) or flops (equal work)",
       .member = &PlanOptions::split,
       .most = 1,
       .is_omitted = true,
       .choices = {"blocks", "flops"},
       .words = [](const PlanOptions& o) { return std::string(o.split == 0 ? "equal blocks" : "equal work"); }},
      {.name = "input",
       .word = "input",
       .help = "Where batches come from: resident (the device's memory) or prefetch (the host's memory, copied by a "
               "second stream while the step before runs)",
       .member = &PlanOptions::input,
       .most = 1,
       .of_several = false,
       .is_omitted = true,
       .choices = {"resident", "prefetch"},
       .words =
           [](const PlanOptions& o) { return std::string(o.input == 0 ? "resident batches" : "prefetched batches"); }},
      {.name = "local_sgd",
       .word = "local-sgd",
       .help =
           "Steps that each device takes alone before parameters and optimizer state are averaged, 0: gradients are "
           "summed in every step",
       .member = &PlanOptions::local_sgd,
       .most = 1 << 20,
       .is_omitted = true,
       .prefix = "local",
       .words =
           [](const PlanOptions& o) {
             return o.local_sgd == 0
                        ? std::string("summed gradients")
                        : fmt::format("averages every {} step{}", o.local_sgd, o.local_sgd == 1 ? "" : "s");
           }},
      {.name = "compress",
       .word = "compress",
       .help = "Gradients as they are sent: none, fp16, bf16, int8 or topk (the last two with error feedback)",
       .member = &PlanOptions::compress,
       .most = 4,
       .is_omitted = true,
       .choices = {"none", "fp16", "bf16", "int8", "topk"},
       .words =
           [](const PlanOptions& o) {
             constexpr const char* kWords[] = {"whole gradients", "gradients in fp16", "gradients in bf16",
                                               "gradients in int8", "largest gradients"};
             return std::string(kWords[o.compress]);
           }},
      {.name = "keep_ppm",
       .word = "keep",
       .help = "Fraction of the gradients that compress=topk sends",
       .member = &PlanOptions::keep_ppm,
       .least = 1000,
       .most = kMillion,
       .option_unit = kMillion,
       .example = "0.01",
       .is_omitted = true,
       .words =
           [](const PlanOptions& o) {
             return fmt::format("{:g} % of the gradients", 100 * static_cast<double>(o.keep_ppm) / kMillion);
           }},
      {.name = "async_steps",
       .word = "async",
       .help = "Apply each gradient N steps late, so that its all-reduce has N steps to finish",
       .member = &PlanOptions::async_steps,
       .most = 64,
       .is_omitted = true,
       .prefix = "async",
       .words =
           [](const PlanOptions& o) {
             return o.async_steps == 0
                        ? std::string("updates at once")
                        : fmt::format("updates {} step{} late", o.async_steps, o.async_steps == 1 ? "" : "s");
           }},
      {.name = "virtual_shards",
       .word = "virtual-shards",
       .help =
           "Parts of every batch that devices compute one by one, with gradients added in order: any number of devices "
           "gives the same bits, 0: none",
       .member = &PlanOptions::virtual_shards,
       .most = 1 << 10,
       .of_several = false,
       .is_omitted = true,
       .prefix = "shards",
       .words =
           [](const PlanOptions& o) {
             return o.virtual_shards == 0
                        ? std::string("no virtual shards")
                        : fmt::format("{} virtual shard{}", o.virtual_shards, o.virtual_shards == 1 ? "" : "s");
           }},
      {.name = "shares",
       .word = "shares",
       .help = "Rows of the devices: equal, auto (by their measured speed) or weights like 3:1",
       .member = &PlanOptions::shares,
       .most = kAutoShares,
       .example = "3:1",
       .is_omitted = true,
       .format = shares_text,
       .parse = parse_shares,
       .words = [](const PlanOptions& o) { return fmt::format("shares {}", shares_text(o.shares)); }},
      {.name = "peer_blocks",
       .word = "peer-blocks",
       .help = "zero1 on GPUs: thread blocks of an update across them beside backward, 0: chosen",
       .member = &PlanOptions::peer_blocks,
       .most = 1 << 16,
       .is_axis = false}};
  return kFields;
}

std::string text_of(const PlanField& field, const PlanOptions& options) {
  if (const auto* number = std::get_if<int64_t PlanOptions::*>(&field.member))
    return field.format            ? field.format(options.**number)
           : field.choices.empty() ? std::to_string(options.**number)
                                   : std::string(field.choices[static_cast<size_t>(options.**number)]);
  return options.*std::get<bool PlanOptions::*>(field.member) ? "yes" : "no";
}

void check_plan_options(const PlanOptions& options) {
  for (const PlanField& field : plan_fields()) {
    const auto* number = std::get_if<int64_t PlanOptions::*>(&field.member);
    if (!number) continue;
    const int64_t value = options.**number;
    if (value < field.least || value > field.most)
      throw Error(Cause::usage, fmt::format("{} is {}", field.name, value),
                  fmt::format("{} to {}", field.least, with_thousands(field.most)));
  }
}

int64_t ParallelPlan::local_rows() const {
  const bool full_batch = strategy == "single" || strategy == "replicated";
  return global_batch / accumulate / (full_batch ? 1 : mesh.dp);
}

}  // namespace amdahl
