#include <fmt/format.h>

#include <cstdio>

#include "cli/commands.h"

namespace amdahl::cli {

int topo_command(const TopoArgs& args) {
  const TopoOutcome outcome = run_topo(args.config);
  const std::string& text = args.format == "json"  ? outcome.json
                            : args.format == "dot" ? outcome.dot
                            : args.format == "svg" ? outcome.svg
                                                   : outcome.matrix;
  if (args.output.empty() || args.output == "-") {
    fmt::print("{}{}", text, text.ends_with('\n') ? "" : "\n");
    return 0;
  }
  save_text(args.output, text);
  fmt::print("{}\n", args.output);
  return 0;
}

}  // namespace amdahl::cli
