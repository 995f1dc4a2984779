// Commands that only print the result of their verb.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/output.h"

namespace amdahl::cli {

int advise_command(const AdviseArgs& args) {
  const Advice advice = run_advise(args.config);
  if (args.talk.json) {
    fmt::print("{}\n", to_json(advice));
    return 0;
  }
  show(stdout, fmt::format("{}: {}\n", advice.decision, advice.reason));
  for (const std::string& line : advice.evidence) show(stdout, fmt::format("  {}\n", line));
  if (!advice.command.empty()) show(stdout, fmt::format("measure it: {}\n", advice.command));
  return 0;
}

int outlook_command(const AdviseArgs& args) {
  const OutlookOutcome outcome = run_outlook(args.outlook);
  if (args.talk.json)
    fmt::print("{}\n", to_json(outcome));
  else
    show(stdout, to_text(outcome));
  return 0;
}

int compare_command(const CompareArgs& args) {
  const CompareOutcome outcome = run_compare(args.config);
  if (args.talk.json)
    fmt::print("{}\n", to_json(outcome));
  else
    show(stdout, args.markdown ? to_markdown(outcome) : to_text(outcome));
  if (!args.config.html.empty()) show(stderr, fmt::format("page: {}\n", args.config.html));
  return outcome.regression ? exit_code(Cause::check_failed) : 0;
}

int sensor_compare_command(const CompareArgs& args) {
  const SensorCompareOutcome outcome = run_sensor_compare(args.sensors);
  if (args.talk.json)
    fmt::print("{}\n", to_json(outcome));
  else
    show(stdout, args.markdown ? to_markdown(outcome) : to_text(outcome));
  return 0;
}

int plans_command(const PlansArgs& args) {
  const PlansOutcome outcome = run_plans(args.config);
  if (args.talk.json)
    fmt::print("{}\n", to_json(outcome));
  else
    show(stdout, to_text(outcome));
  return 0;
}

int info_command(const InfoArgs& args) {
  const InfoOutcome info = run_info(process_environment());
  if (args.talk.json) {
    fmt::print("{}\n", to_json(info));
    return 0;
  }
  const MachineSpec& machine = info.machine;
  fmt::print("amdahl {} ({})\n", version(), build_commit());
  fmt::print("host    {}, {}\n", machine.host, machine.os);
  fmt::print("cpu     {}, {} cores, {} NUMA node(s), {}\n", machine.cpu_name, machine.num_cores, machine.num_numa_nodes,
             format_bytes(static_cast<double>(machine.memory_bytes)));
  if (machine.devices.empty()) fmt::print("gpus    none: CPU virtual devices stand in, and every number says so\n");
  for (const DeviceSpec& device : machine.devices)
    fmt::print("gpu {}   {}, {}, compute capability {}, {}\n", device.index, device.name,
               format_bytes(static_cast<double>(device.memory_bytes)), device.compute_capability, device.uuid);
  fmt::print("backends\n");
  for (const BackendStatus& backend : info.backends) {
    const std::string state = backend.availability.ok ? "ok" : "missing: " + backend.availability.reason;
    fmt::print("  {:<8}{} {}\n", backend.name, state, backend.version);
    if (!backend.availability.ok && !backend.availability.remedy.empty())
      fmt::print("          try: {}\n", backend.availability.remedy);
  }
  return 0;
}

}  // namespace amdahl::cli
