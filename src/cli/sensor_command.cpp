// `amdahl sensor`: point clouds into voxels, trajectories onto new times.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "amdahl/sensor.h"
#include "cli/file_options.h"
#include "cli/output.h"

namespace amdahl::cli {
namespace {

/// Parses "-10,-10,-2".
std::array<double, 3> parse_corner(const std::string& text) {
  const std::vector<double> corner = parse_quantities(text, Unit::number, "--min");
  if (corner.size() != 3)
    throw Error(Cause::usage, fmt::format("--min: '{}' is no corner of three coordinates", text), "--min -10,-10,-2");
  return {corner[0], corner[1], corner[2]};
}

void add_place(CLI::App* sub, SensorPlace& place, std::string& gpus) {
  sub->add_option("--backend", place.backend, "auto, cpu or cuda")->capture_default_str();
  sub->add_option("--gpus", gpus, "CUDA device to compute on (default: 0)");
  offer(sub, "--backend", {"auto", "cpu", "cuda"});
  offer_lists(sub, {"--gpus"});
}

int one_gpu(const std::string& gpus) {
  if (gpus.empty()) return 0;
  const std::vector<int> all = parse_gpus(gpus);
  if (all.size() > 1) throw Error(Cause::usage, fmt::format("--gpus {}: one computes", gpus), "--gpus 0");
  return all.front();
}

template <class Outcome>
int show_converted(const Outcome& outcome, const std::string& file, const OutputOptions& output) {
  for (const std::string& warning : outcome.warnings) show(stderr, fmt::format("warning: {}\n", warning));
  if (output.json) {
    show_data(to_json(outcome) + "\n");
    return 0;
  }
  if (!output.quiet) show(stdout, text_of(outcome));
  if (!file.empty()) show_written(file);
  return 0;
}

struct VoxelizeArgs {
  VoxelizeConfig config;
  std::string grid, minimum, mode = "occupancy", layout = "xyz", bounds = "drop", gpus, data_options;
  OutputOptions output;
};

int run_parsed_voxelize(const CLI::App& sub, VoxelizeArgs& parsed) {
  VoxelizeConfig& config = parsed.config;
  config.place.gpu = one_gpu(parsed.gpus);
  read_data_options(parsed.data_options, cloud_options(config.file));
  if (sub.count("--voxel-size") == 0)
    throw Error(Cause::usage, "voxelize needs --voxel-size", "the edge of a voxel, like --voxel-size 0.2");
  require_place("--output", config.output);
  if (!parsed.grid.empty()) config.size = parse_grid(parsed.grid);
  if (!parsed.minimum.empty()) config.minimum = parse_corner(parsed.minimum);
  config.options.mode = one_of<VoxelMode>("--mode", parsed.mode,
                                          {{"count", VoxelMode::count},
                                           {"occupancy", VoxelMode::occupancy},
                                           {"bitmask", VoxelMode::bitmask},
                                           {"mean", VoxelMode::mean},
                                           {"max", VoxelMode::max}});
  config.options.layout =
      one_of<VoxelLayout>("--layout", parsed.layout, {{"xyz", VoxelLayout::xyz}, {"zyx", VoxelLayout::zyx}});
  config.options.bounds =
      one_of<OutOfBounds>("--bounds", parsed.bounds, {{"drop", OutOfBounds::drop}, {"clamp", OutOfBounds::clamp}});
  return show_converted(run_voxelize(config), config.output, parsed.output);
}

Command define_voxelize(CLI::App& sensor) {
  auto args = std::make_shared<VoxelizeArgs>();
  VoxelizeConfig& config = args->config;
  CLI::App* sub = sensor.add_subcommand("voxelize", "A point cloud into a grid of voxels");
  sub->footer(
      "examples:\n  amdahl sensor voxelize scan.bin --voxel-size 0.2\n  amdahl sensor voxelize scan.ply --voxel-size "
      "0.2 "
      "--grid 200x200x40 --min -20,-20,-2 --mode mean --output grid.npy");
  sub->add_option("cloud", config.input, ".bin of KITTI or nuScenes, .npy of [N, 3 + F], or .ply")->required();
  add_data_options(sub, args->data_options, cloud_options(config.file));
  sub->add_option("--voxel-size", config.voxel_size, "Edge of a voxel, in the points' unit");
  sub->add_option("--grid", args->grid, "Voxels per axis, 128 or 200x200x40 (default: fitted around the points)");
  sub->add_option("--min", args->minimum, "Least corner x,y,z (default: fitted, or centred with --grid)");
  sub->add_option("--mode", args->mode, "count, occupancy, bitmask, mean or max")->capture_default_str();
  sub->add_option("--layout", args->layout, "xyz or zyx")->capture_default_str();
  sub->add_option("--bounds", args->bounds, "Points outside: drop, or clamp to the border")->capture_default_str();
  sub->add_flag("--deterministic", config.options.deterministic, "mean: the same bits for any order of the points");
  add_place(sub, config.place, args->gpus);
  sub->add_option("--output,-o", config.output, ".npy of the grid, or .npz with its place (default: none)");
  add_output_options(sub, args->output);
  offer(sub, "--mode", {"count", "occupancy", "bitmask", "mean", "max"});
  offer(sub, "--layout", {"xyz", "zyx"});
  offer(sub, "--bounds", {"drop", "clamp"});
  offer_files(sub, {"cloud", "--output"});
  arrange(sub, {{"Data", "+--data-options"},
                {"Grid", "--voxel-size --grid --min --mode --layout --bounds --deterministic"},
                {"Devices", "--backend --gpus"},
                {"Output", "--output"}});
  return {sub, [args, sub](const std::string&) { return run_parsed_voxelize(*sub, *args); }};
}

struct TimelineArgs {
  TimelineConfig config;
  bool fuse = false;
  std::string extrapolation = "hold", gpus, data_options;
  OutputOptions output;
};

int run_parsed_resample(const CLI::App& sub, TimelineArgs& args) {
  TimelineConfig& config = args.config;
  require_place("--output", config.output);
  read_data_options(args.data_options, track_options(config.file));
  config.place.gpu = one_gpu(args.gpus);
  config.extrapolation = one_of<Extrapolation>("--extrapolation", args.extrapolation,
                                               {{"hold", Extrapolation::hold},
                                                {"linear", Extrapolation::linear},
                                                {"linear-right", Extrapolation::linear_right}});
  require_positive(sub, "--targets", config.num_targets);
  if (!args.fuse) return show_converted(run_resample(config), config.output, args.output);
  refuse_options(sub, {"--stream"}, "with --fuse, which takes all streams", "one of them");
  return show_converted(run_fuse(config), config.output, args.output);
}

Command define_resample(CLI::App& sensor) {
  auto args = std::make_shared<TimelineArgs>();
  TimelineConfig& config = args->config;
  CLI::App* sub =
      sensor.add_subcommand("resample", "Trajectories onto evenly spaced times, or all streams side by side");
  sub->footer(
      "examples:\n  amdahl sensor resample run.csv --rate 50 --output run.npy\n  amdahl sensor resample run.npz "
      "--stream "
      "arm --targets 256 --output arm.npz\n  amdahl sensor resample streams.npz --fuse --rate 50 --output fused.npz");
  sub->add_option("trajectories", config.input, ".csv, .tsv, .txt or .npz; --fuse: .npz of NAME_times and NAME")
      ->required();
  sub->add_option("--stream", config.stream, "Which of the file's streams");
  sub->add_flag("--fuse", args->fuse, "All streams of several sensors onto common times, side by side");
  add_data_options(sub, args->data_options, track_options(config.file));
  sub->add_option("--rate", config.rate_hz, "Targets per second (per unit of the file's times)");
  sub->add_option("--targets", config.num_targets, "Or so many, evenly from first to last");
  sub->add_option("--begin", config.begin, "Time of the first target (default: where all streams have samples)");
  sub->add_option("--end", config.end, "Time that the targets reach");
  sub->add_option("--extrapolation", args->extrapolation, "Outside a stream's times: hold, linear or linear-right")
      ->capture_default_str();
  add_place(sub, config.place, args->gpus);
  sub->add_option("--output,-o", config.output, ".npz of times and values, or .npy of values (default: none)");
  add_output_options(sub, args->output);
  offer(sub, "--extrapolation", {"hold", "linear", "linear-right"});
  offer_files(sub, {"--output", "trajectories"});
  arrange(sub, {{"Data", "--stream --fuse +--data-options"},
                {"Times", "--rate --targets --begin --end --extrapolation"},
                {"Devices", "--backend --gpus"},
                {"Output", "--output"}});
  return {sub, [args, sub](const std::string&) { return run_parsed_resample(*sub, *args); }};
}

}  // namespace

std::vector<Command> define_sensor_commands(CLI::App& app) {
  CLI::App* sensor = app.add_subcommand("sensor", "Point clouds into voxels, trajectories onto new times");
  sensor->require_subcommand(0, 1);
  const Command alone{sensor, [sensor](const std::string&) {
                        fmt::print("{}", sensor->help("amdahl"));
                        return 0;
                      }};
  return {define_voxelize(*sensor), define_resample(*sensor), define_sensor_bench(*sensor), alone};
}

}  // namespace amdahl::cli
