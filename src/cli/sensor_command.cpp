// Output of the commands of `amdahl sensor` that read files.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/output.h"

namespace amdahl::cli {
namespace {

template <class Outcome>
int show_outcome(const Outcome& outcome, const std::string& output, const Talk& talk) {
  for (const std::string& warning : outcome.warnings) show(stderr, fmt::format("warning: {}\n", warning));
  if (talk.json) {
    show_data(to_json(outcome) + "\n");
    return 0;
  }
  if (!talk.quiet) show(stdout, to_text(outcome));
  if (!output.empty()) show_written(output);
  return 0;
}

}  // namespace

int voxelize_command(const VoxelizeArgs& args) {
  return show_outcome(run_voxelize(args.config), args.config.output, args.talk);
}

int resample_command(const TimelineArgs& args) {
  return show_outcome(run_resample(args.config), args.config.output, args.talk);
}

int fuse_command(const TimelineArgs& args) {
  return show_outcome(run_fuse(args.config), args.config.output, args.talk);
}

}  // namespace amdahl::cli
