#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {

using nlohmann::json;

std::string voxelize_to_json(const VoxelizeOutcome& outcome) {
  const VoxelGrid& grid = outcome.grid;
  return dump({{"version", 1},
               {"format", outcome.cloud.format},
               {"features", outcome.cloud.feature_names},
               {"points", outcome.stats.num_points},
               {"nan", outcome.stats.num_nan},
               {"outside", outcome.stats.num_outside},
               {"grid",
                {{"size", grid.size},
                 {"minimum", grid.minimum},
                 {"voxel_size", grid.voxel_size},
                 {"fitted_minimum", outcome.fitted_minimum},
                 {"fitted_size", outcome.fitted_size}}},
               {"occupied", outcome.num_occupied},
               {"max_per_voxel", outcome.max_per_voxel},
               {"mode", to_string(outcome.mode)},
               {"shape", outcome.shape},
               {"device", outcome.device},
               {"warnings", outcome.warnings}},
              2);
}

std::string timeline_to_json(const TimelineOutcome& outcome) {
  json streams = json::array();
  for (const Trajectories& stream : outcome.streams)
    streams.push_back({{"name", stream.name},
                       {"shape", {stream.batch, stream.length, stream.width}},
                       {"columns", stream.names},
                       {"skipped", stream.skipped}});
  return dump({{"version", 1},
               {"streams", streams},
               {"shape", outcome.shape},
               {"origin", finite(outcome.origin, "origin")},
               {"first", finite(outcome.first, "first")},
               {"last", finite(outcome.last, "last")},
               {"outside", outcome.num_outside},
               {"device", outcome.device},
               {"warnings", outcome.warnings}},
              2);
}

}  // namespace amdahl
