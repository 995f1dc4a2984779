#include <fmt/format.h>

#include <cstdio>

#include "amdahl/export.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

int list_tests() {
  std::string group;
  for (const LinkTestInfo& test : list_link_tests()) {
    if (test.group != group) fmt::print("{}\n", group = test.group);
    fmt::print("  {:<46} {}\n", test.name, test.summary);
  }
  return 0;
}

}  // namespace

int links_command(const LinksArgs& args) {
  if (args.list) return list_tests();
  TerminalObserver observer(args.talk.quiet);
  const LinksOutcome outcome = run_links(args.config, observer);
  if (args.config.repeat.is_child()) return 0;
  if (args.talk.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, to_text(outcome));
  if (!args.metrics.empty()) save_text(args.metrics, metrics_text(outcome.records));
  if (!args.machine.empty()) save_measured(args.machine, outcome.machine);
  if (!args.heat_map.empty()) {
    const std::string heat_map = to_svg(outcome);
    if (heat_map.empty())
      throw Error(Cause::usage, "--heat-map has nothing to draw",
                  "--test device_to_device_memcpy_write_ce on two devices or more");
    save_text(args.heat_map, heat_map);
  }
  if (!outcome.run_dir.empty()) show(args.talk.json ? stderr : stdout, fmt::format("run: {}\n", outcome.run_dir));
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "a link corrupts data, is slow, or could not be measured",
              "the lines marked CORRUPT, SLOW or FAILED say which");
}

}  // namespace amdahl::cli
