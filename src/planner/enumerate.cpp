#include "planner/enumerate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "amdahl/units.h"
#include "planner/workload.h"

namespace amdahl {
namespace {

constexpr int64_t kDefaultBucket = 25 << 20;
constexpr const char* kRecompute[] = {"none", "block", "selective"};

// "dp2" with prefix "dp" -> 2
bool number_after(std::string_view text, std::string_view prefix, int64_t& value) {
  if (!text.starts_with(prefix) || text.size() == prefix.size()) return false;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + prefix.size(), end, value);
  return error == std::errc() && stop == end && value > 0;
}

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(separator, start), text.size());
    parts.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

[[noreturn]] void refuse(std::string_view text, std::string_view part) {
  throw Error(Cause::usage, fmt::format("plan '{}': '{}' is no part of a plan", text, part),
              "a text like dp2.tp2.pp2,1f1b,m8,zero1,recompute=block");
}

bool read_mesh(std::string_view part, Mesh& mesh) {
  for (const std::string_view axis : parts_of(part, '.')) {
    int64_t size = 0;
    if (number_after(axis, "dp", size))
      mesh.dp = static_cast<int>(size);
    else if (number_after(axis, "tp", size))
      mesh.tp = static_cast<int>(size);
    else if (number_after(axis, "pp", size))
      mesh.pp = static_cast<int>(size);
    else
      return false;
  }
  return true;
}

bool read_schedule(std::string_view part, PlanChoice& choice) {
  for (const ScheduleKind kind : schedule_kinds()) {
    if (!part.starts_with(to_string(kind))) continue;
    const std::string_view rest = part.substr(to_string(kind).size());
    int64_t chunks = kind == ScheduleKind::interleaved || kind == ScheduleKind::zb_v ? 2 : 1;
    if (!rest.empty() && !number_after(rest, "x", chunks)) continue;
    choice.schedule = kind, choice.chunks = static_cast<int>(chunks);
    return true;
  }
  return false;
}

bool read_option(std::string_view part, PlanChoice& choice) {
  ParallelPlan& plan = choice.plan;
  int64_t number = 0;
  if (number_after(part, "m", plan.accumulate)) return true;
  if (number_after(part, "zero", number) && number <= 3) return plan.strategy = std::string(part), true;
  if (part == "ddp" || part == "dp" || part == "single") return plan.strategy = std::string(part), true;
  if (part == "no-overlap") return plan.overlap = false, true;
  if (number_after(part, "bucket-mb=", number) && number <= 1 << 16) return plan.bucket_bytes = number << 20, true;
  for (int64_t value = 0; value < 3; ++value)
    if (part == fmt::format("recompute={}", kRecompute[value])) return plan.recompute = value, true;
  return false;
}

struct ScheduleChoice {
  ScheduleKind kind;
  int chunks;
};

std::vector<ScheduleChoice> schedules_of(const Mesh& mesh, int64_t micro_batches, int64_t blocks) {
  if (mesh.pp == 1) return {{ScheduleKind::one_f_one_b, 1}};
  std::vector<ScheduleChoice> all;
  for (const ScheduleKind kind : schedule_kinds()) {
    const bool chunked = kind == ScheduleKind::interleaved || kind == ScheduleKind::zb_v;
    const std::vector<int> counts =
        kind == ScheduleKind::interleaved ? std::vector<int>{2, 4} : std::vector<int>{chunked ? 2 : 1};
    for (const int chunks : counts)
      if (static_cast<int64_t>(chunks) * mesh.pp <= blocks &&
          schedule_feasible(kind, mesh.pp, static_cast<int>(micro_batches), chunks).ok)
        all.push_back({kind, chunks});
  }
  return all;
}

struct Sync {
  std::string strategy;
  bool overlap;
  int64_t bucket_bytes;
};

std::vector<Sync> syncs_of(int dp, int zero_stages) {
  if (dp == 1) return {{"single", true, kDefaultBucket}};
  std::vector<Sync> all;
  for (int stage = 0; stage <= zero_stages; ++stage) {
    const std::string strategy = stage == 0 ? "ddp" : fmt::format("zero{}", stage);
    all.push_back({strategy, false, kDefaultBucket});
    for (const int64_t megabytes : {5, 25, 100}) all.push_back({strategy, true, megabytes << 20});
  }
  return all;
}

std::vector<Mesh> meshes_of(int devices, const PlanSpace& space) {
  std::vector<Mesh> all;
  for (int tp = 1; tp <= (space.tensor ? devices : 1); ++tp)
    for (int pp = 1; pp <= (space.pipeline ? devices / tp : 1); ++pp)
      if (devices % (tp * pp) == 0) all.push_back({devices / (tp * pp), tp, pp});
  return all;
}

void add_choices(const ModelSpec& model, const PlanSpace& space, const Mesh& mesh, int64_t blocks,
                 std::vector<PlanChoice>& all) {
  ParallelPlan plan;
  plan.mesh = mesh;
  plan.global_batch = space.global_batch;
  const bool block_model = blocks > 0;
  const int64_t stages = block_model ? blocks : static_cast<int64_t>(model.layers.size());
  if (space.global_batch % mesh.dp != 0 || !mesh_feasible(model, plan).ok) return;
  const int64_t rows = space.global_batch / mesh.dp;
  for (int64_t m = 1; m <= rows; ++m) {
    if (rows % m != 0) continue;
    plan.accumulate = m;
    for (const ScheduleChoice& schedule : schedules_of(mesh, m, stages))
      for (const Sync& sync : syncs_of(mesh.dp, space.zero_stages))
        for (const int64_t recompute : {0, 1, 2}) {
          if (recompute > 0 && !block_model) continue;
          plan.strategy = sync.strategy, plan.overlap = sync.overlap, plan.bucket_bytes = sync.bucket_bytes;
          plan.recompute = recompute;
          all.push_back({plan, schedule.kind, schedule.chunks});
        }
  }
}

}  // namespace

std::string choice_text(const PlanChoice& choice) {
  const ParallelPlan& plan = choice.plan;
  std::string text;
  const auto axis = [&](const char* name, int size) {
    if (size > 1) text += fmt::format("{}{}{}", text.empty() ? "" : ".", name, size);
  };
  axis("dp", plan.mesh.dp), axis("tp", plan.mesh.tp), axis("pp", plan.mesh.pp);
  if (text.empty()) text = "dp1";
  if (plan.mesh.pp > 1) {
    text += fmt::format(",{}", to_string(choice.schedule));
    if (choice.schedule == ScheduleKind::interleaved && choice.chunks != 2) text += fmt::format("x{}", choice.chunks);
  }
  if (plan.accumulate > 1) text += fmt::format(",m{}", plan.accumulate);
  if (plan.mesh.dp > 1 && plan.strategy != "ddp") text += "," + plan.strategy;
  if (plan.recompute > 0) text += fmt::format(",recompute={}", kRecompute[plan.recompute]);
  if (plan.mesh.dp > 1 && !plan.overlap) text += ",no-overlap";
  if (plan.mesh.dp > 1 && plan.bucket_bytes != kDefaultBucket)
    text += fmt::format(",bucket-mb={}", plan.bucket_bytes >> 20);
  return text;
}

PlanChoice parse_choice(std::string_view text, int64_t global_batch) {
  PlanChoice choice;
  choice.plan.global_batch = global_batch;
  choice.plan.strategy = "";
  bool first = true;
  for (const std::string_view part : parts_of(text, ',')) {
    if (!(first && read_mesh(part, choice.plan.mesh)) && !read_schedule(part, choice) && !read_option(part, choice))
      refuse(text, part);
    first = false;
  }
  if (choice.plan.strategy.empty()) choice.plan.strategy = choice.plan.mesh.dp > 1 ? "ddp" : "single";
  return choice;
}

std::vector<PlanChoice> enumerate_choices(const ModelSpec& model, const PlanSpace& space) {
  const auto blocks = std::count_if(model.layers.begin(), model.layers.end(),
                                    [](const LayerSpec& layer) { return layer.kind == LayerKind::transformer_block; });
  std::vector<PlanChoice> all;
  for (int devices = space.least_devices; devices <= space.most_devices; ++devices)
    for (const Mesh& mesh : meshes_of(devices, space)) add_choices(model, space, mesh, blocks, all);
  return all;
}

}  // namespace amdahl
