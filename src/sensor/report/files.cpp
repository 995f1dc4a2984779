#include "sensor/report/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "amdahl/error.h"

namespace amdahl {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string_view placing(const VoxelizeOutcome& outcome) {
  if (outcome.fitted_minimum && outcome.fitted_size) return ", fitted around the points";
  if (outcome.fitted_minimum) return ", centred on the points";
  return outcome.fitted_size ? ", up to the last point" : "";
}

}  // namespace

std::string voxelize_text(const VoxelizeOutcome& outcome) {
  const PointCloud& cloud = outcome.cloud;
  const VoxelGrid& grid = outcome.grid;
  std::string text =
      fmt::format("points    {} ({}), features: {}\n", with_thousands(cloud.num_points), cloud.format,
                  cloud.feature_names.empty() ? "none" : fmt::to_string(fmt::join(cloud.feature_names, ", ")));
  text += fmt::format("NaN       {}, in no voxel\n", with_thousands(outcome.stats.num_nan));
  text += fmt::format("outside   {}\n", with_thousands(outcome.stats.num_outside));
  text += fmt::format("grid      {} voxels of {:g} from ({}){}\n", fmt::join(grid.size, " x "), grid.voxel_size,
                      fmt::join(grid.minimum, ", "), placing(outcome));
  text +=
      fmt::format("occupied  {} of {} voxels, at most {} points in one\n", with_thousands(outcome.num_occupied),
                  with_thousands(grid.size[0] * grid.size[1] * grid.size[2]), with_thousands(outcome.max_per_voxel));
  text += fmt::format("output    {} {}, by {}\n", to_string(outcome.mode), shape_text(outcome.shape), outcome.device);
  return text;
}

std::string timeline_text(const TimelineOutcome& outcome) {
  std::string text;
  for (const Trajectories& stream : outcome.streams) {
    text += fmt::format("stream    {}{}", stream.name.empty() ? "" : stream.name + " ",
                        shape_text({stream.batch, stream.length, stream.width}));
    if (!stream.names.empty()) text += fmt::format(": {}", fmt::join(stream.names, ", "));
    if (!stream.time_name.empty()) text += fmt::format("; time: {}", stream.time_name);
    if (!stream.skipped.empty()) text += fmt::format("; no numbers in: {}", fmt::join(stream.skipped, ", "));
    text += '\n';
  }
  text +=
      fmt::format("targets   {} a trajectory, from {} to {}; {} outside of a stream's times\n",
                  with_thousands(outcome.shape[1]), outcome.first, outcome.last, with_thousands(outcome.num_outside));
  text += fmt::format("output    {}, by {}\n", shape_text(outcome.shape), outcome.device);
  return text;
}

}  // namespace amdahl
