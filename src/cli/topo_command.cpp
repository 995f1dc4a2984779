#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"
#include "cli/output.h"

namespace amdahl::cli {

int topo_command(const TopoArgs& args) {
  const TopoOutcome outcome = run_topo(args.config);
  const std::string text = args.format == "json"  ? to_json(outcome)
                           : args.format == "dot" ? to_dot(outcome)
                           : args.format == "svg" ? to_svg(outcome)
                                                  : to_text(outcome);
  if (args.output.empty() || args.output == "-") {
    show_data(text.ends_with('\n') ? text : text + "\n");
    return 0;
  }
  save_text(args.output, text);
  show_written(args.output);
  return 0;
}

}  // namespace amdahl::cli
