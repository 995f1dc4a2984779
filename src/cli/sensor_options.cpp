// `amdahl sensor`: the commands around robotics preprocessing.
#include "cli/option_values.h"

namespace amdahl::cli {

std::vector<Command> define_sensor_commands(CLI::App& app) {
  CLI::App* sensor = app.add_subcommand("sensor", "Robotics preprocessing: fuse, voxelize and resample");
  sensor->require_subcommand(0, 1);
  return {define_sensor_bench(*sensor)};
}

}  // namespace amdahl::cli
