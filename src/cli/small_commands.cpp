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
    show_data(to_json(advice) + "\n");
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
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, to_text(outcome));
  return 0;
}

int compare_command(const CompareArgs& args) {
  const CompareOutcome outcome = run_compare(args.config);
  if (args.talk.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, args.markdown ? to_markdown(outcome) : to_text(outcome));
  if (!args.config.html.empty()) show(stderr, fmt::format("page: {}\n", args.config.html));
  return outcome.regression ? exit_code(Cause::check_failed) : 0;
}

int sensor_compare_command(const CompareArgs& args) {
  const SensorCompareOutcome outcome = run_sensor_compare(args.sensors);
  if (args.talk.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, args.markdown ? to_markdown(outcome) : to_text(outcome));
  return 0;
}

int plans_command(const PlansArgs& args) {
  const PlansOutcome outcome = run_plans(args.config);
  if (args.talk.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, to_text(outcome));
  return 0;
}

int info_command(const InfoArgs& args) {
  const InfoOutcome info = run_info(process_environment());
  if (args.talk.json) {
    show_data(to_json(info) + "\n");
    return 0;
  }
  const MachineSpec& machine = info.machine;
  show(stdout, fmt::format("amdahl {} ({})\n", version(), build_commit()));
  show(stdout, fmt::format("host    {}, {}\n", machine.host, machine.os));
  const std::string limit =
      machine.cpu_limit > 0 ? fmt::format(" (limited to {:.3g} by the control group)", machine.cpu_limit) : "";
  show(stdout, fmt::format("cpu     {}, {} core{}{}, {} NUMA node(s), {}\n", machine.cpu_name, machine.num_cores,
                           machine.num_cores == 1 ? "" : "s", limit, machine.num_numa_nodes,
                           format_bytes(static_cast<double>(machine.memory_bytes))));
  if (machine.devices.empty()) show(stdout, "gpus    none: CPU virtual devices stand in, and every number says so\n");
  for (const DeviceSpec& device : machine.devices)
    show(stdout,
         fmt::format("gpu {}   {}, {}, compute capability {}, {}\n", device.index, device.name,
                     format_bytes(static_cast<double>(device.memory_bytes)), device.compute_capability, device.uuid));
  show(stdout, "backends\n");
  for (const BackendStatus& backend : info.backends) {
    const std::string state = backend.availability.ok ? "ok" : "missing: " + backend.availability.reason;
    show(stdout, fmt::format("  {:<8}{} {}\n", backend.name, state, backend.version));
    if (!backend.availability.ok && !backend.availability.remedy.empty())
      show(stdout, fmt::format("          try: {}\n", backend.availability.remedy));
  }
  return 0;
}

}  // namespace amdahl::cli
