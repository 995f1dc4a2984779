#include "verbs/training/shrink.h"

#include <fmt/format.h>

#include <algorithm>

#include "comm/world.h"
#include "plan/plan_rules.h"
#include "setup/rank_processes.h"

namespace amdahl {

namespace {

constexpr int kTriedPorts = 16, kLowestPort = 1024, kHighestPort = 65535;

}  // namespace

void check_on_failure(const TrainConfig& config) {
  if (config.on_failure == "stop") return;
  if (config.on_failure != "shrink")
    throw Error(Cause::usage, fmt::format("unknown `on_failure` '{}'", config.on_failure),
                choices_hint(config.on_failure, {"stop", "shrink"}));
  if (config.checkpoint_every == 0)
    throw Error(Cause::usage, "`on_failure=shrink` goes on from a checkpoint, and none is written",
                "`checkpoint_every`, for example 100");
  if (!detect_launch(config.engine.environment).multi_process())
    throw Error(Cause::usage, "`on_failure=shrink` is for ranks in processes of their own, and this is one process",
                "one process per device, or `on_failure=stop`");
  if (config.engine.processes == "mpi")
    throw Error(Cause::usage, "`on_failure=shrink`: MPI ends all processes when one dies",
                "Gloo between the processes");
}

bool goes_on_after(const TrainConfig& config, const Error& error, const TrainingSoFar& so_far) {
  return config.on_failure == "shrink" && error.cause() == Cause::rank_died && error.rank() >= 0 &&
         so_far.plan.num_devices() > 1 && so_far.plan.global_batch > 0;
}

std::optional<TrainConfig> shrink_training(const TrainConfig& config, const Error& error, const TrainingSoFar& so_far,
                                           Shrunk* shrunk) {
  const LaunchContext launch = detect_launch(config.engine.environment);
  const int dead = error.rank();
  if (dead == launch.rank || (dead == 0 && launch.local_world_size < launch.world_size)) throw Error(error);
  std::optional<ParallelPlan> plan;
  for (int ranks = launch.world_size - 1; ranks >= 1 && !plan; --ranks)
    plan = nearest_plan(so_far.plan, so_far.model, ranks);
  if (!plan) throw Error(error);
  *shrunk = {dead, format_plan(so_far.plan), format_plan(*plan), so_far.steps};
  const int rank = launch.rank - (launch.rank > dead ? 1 : 0);
  if (rank >= plan->num_devices()) return std::nullopt;
  TrainConfig smaller = config;
  smaller.resume = true;
  smaller.output_dir = so_far.output_dir;
  smaller.devices = plan->num_devices();
  use_plan(smaller.training, *plan);
  std::map<std::string, std::string>& environment = smaller.engine.environment;
  environment = inherited_environment(environment);
  environment["AMDAHL_RANK"] = std::to_string(rank);
  environment["AMDAHL_WORLD_SIZE"] = std::to_string(plan->num_devices());
  environment["AMDAHL_LOCAL_RANK"] = std::to_string(launch.local_rank);  // its GPU stays its own
  environment["AMDAHL_LOCAL_WORLD_SIZE"] = std::to_string(launch.local_world_size);
  environment["AMDAHL_MASTER_ADDR"] = launch.master_address;
  environment["AMDAHL_JOB"] = so_far.job;
  // The old port may still be closing, and the ones after it may be other jobs'.
  const int first = launch.master_port < kHighestPort ? launch.master_port + 1 : kLowestPort;
  environment["AMDAHL_MASTER_PORT"] = fmt::format("{}-{}", first, std::min(first + kTriedPorts - 1, kHighestPort));
  return smaller;
}

std::string drop_unused_feedback(const ParallelPlan& plan, TrainerState& state) {
  if (state.feedback.empty() || keeps_feedback(plan)) return {};
  const size_t ranks = state.feedback.size();
  state.feedback.clear();
  return fmt::format(
      "plan {} sends no compressed gradients: the error feedback of {} ranks, which is what they had not sent yet, is "
      "dropped",
      format_plan(plan), ranks);
}

std::string shrunk_text(const Shrunk& shrunk, int64_t resumed_step) {
  const int64_t lost = shrunk.steps - resumed_step;
  return fmt::format(
      "rank {} died after step {}: plan {} in place of {} goes on from step {}, {} step{} of work {} lost", shrunk.dead,
      shrunk.steps, shrunk.new_plan, shrunk.old_plan, resumed_step, lost, lost == 1 ? "" : "s",
      lost == 1 ? "is" : "are");
}

}  // namespace amdahl
