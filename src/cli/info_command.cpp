// `amdahl info`: this build, its backends, and the devices with their links.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "amdahl/report.h"
#include "cli/environment.h"
#include "cli/option_values.h"
#include "cli/output.h"

namespace amdahl::cli {
namespace {

struct InfoArgs {
  TopoConfig topology;
  std::string format = "matrix", file;
  OutputOptions output;
};

int topology_command(const InfoArgs& args) {
  const TopoOutcome outcome = run_topo(args.topology);
  const std::string text = args.format == "json" || args.output.json ? to_json(outcome)
                           : args.format == "dot"                    ? to_dot(outcome)
                           : args.format == "svg"                    ? to_svg(outcome)
                                                                     : to_text(outcome);
  if (args.file.empty() || args.file == "-") {
    show_data(text.ends_with('\n') ? text : text + "\n");
    return 0;
  }
  save_text(args.file, text);
  show_written(args.file);
  return 0;
}

int info_command(const InfoArgs& args) {
  const InfoOutcome info = run_info(process_environment());
  if (args.output.json) {
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
  show(stdout, "links     amdahl info --topology\n");
  return 0;
}

int run_parsed_info(const InfoArgs& args, const CLI::App& app) {
  if (args.output.json && app.count("--topology") > 0 && args.format != "matrix" && args.format != "json")
    throw Error(Cause::usage, fmt::format("--json with --topology={}", args.format), "one of them");
  if (app.count("--sysfs") > 0) require_folder("--sysfs", args.topology.sysfs);
  require_one_of("--topology", args.format, {"matrix", "json", "dot", "svg"});
  require_positive(app, "--virtual", args.topology.virtual_devices);
  const size_t about_links =
      app.count("--topology") + app.count("--virtual") + app.count("--sysfs") + app.count("--output");
  return about_links > 0 ? topology_command(args) : info_command(args);
}

}  // namespace

Command define_info(CLI::App& app) {
  auto args = std::make_shared<InfoArgs>();
  CLI::App* info = app.add_subcommand("info", "Version, devices and their links, optional backends; measures nothing");
  info->footer("examples:\n  amdahl info\n  amdahl info --topology\n  amdahl info --topology=svg --output machine.svg");
  info->add_option("--topology", args->format,
                   "Links, PCIe paths and NUMA nodes between the devices: matrix, json (a machine file), dot or svg")
      ->expected(0, 1)
      ->default_str("matrix");
  info->add_option("--output,-o", args->file, "File for the topology (default: standard output)");
  info->add_option("--virtual", args->topology.virtual_devices, "Describe this many CPU virtual devices, not the GPUs");
  info->add_option("--sysfs", args->topology.sysfs, "Where the kernel shows its devices; a copy in tests")->group("");
  add_output_options(info, args->output);
  offer(info, "--topology", {"matrix", "json", "dot", "svg"});
  offer_files(info, {"--output"});
  arrange(info, {{"Topology", "--topology --output --virtual"}});
  return {info, [args, info](const std::string&) { return run_parsed_info(*args, *info); }};
}

}  // namespace amdahl::cli
