// Options of `amdahl sensor` and its commands.
#include <charconv>
#include <memory>

#include "cli/file_options.h"

namespace amdahl::cli {
namespace {

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

template <class T>
bool parse_all(const std::string& text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::array<int64_t, 3> parse_grid(const std::string& text) {
  std::vector<std::string> parts = split_at(text, 'x');
  if (parts.size() == 1) parts.resize(3, parts[0]);
  std::array<int64_t, 3> size{};
  bool good = parts.size() == 3;
  for (size_t i = 0; good && i < 3; ++i) good = parse_all(parts[i], size[i]) && size[i] > 0;
  if (!good) throw Error(Cause::usage, fmt::format("--grid is '{}'", text), "voxels per axis, like 128 or 200x200x40");
  return size;
}

namespace {

/// Parses "-10,-10,-2".
std::array<double, 3> parse_corner(const std::string& text) {
  const std::vector<std::string> parts = split_at(text, ',');
  std::array<double, 3> corner{};
  bool good = parts.size() == 3;
  for (size_t i = 0; good && i < 3; ++i) good = parse_all(parts[i], corner[i]);
  if (!good) throw Error(Cause::usage, fmt::format("--min is '{}'", text), "three coordinates, like -10,-10,-2");
  return corner;
}

void add_place(CLI::App* sub, SensorPlace& place) {
  sub->add_option("--backend", place.backend, "auto, cpu or cuda")->capture_default_str();
  sub->add_option("--gpu", place.gpu, "CUDA device to compute on")->check(kWhole)->capture_default_str();
  offer(sub, "--backend", {"auto", "cpu", "cuda"});
}

struct ParsedVoxelize {
  VoxelizeArgs args;
  std::string grid, minimum, mode = "occupancy", layout = "xyz", bounds = "drop";
};

int run_parsed_voxelize(const CLI::App& sub, ParsedVoxelize& parsed) {
  VoxelizeConfig& config = parsed.args.config;
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
  return voxelize_command(parsed.args);
}

Command define_voxelize(CLI::App& sensor) {
  auto parsed = std::make_shared<ParsedVoxelize>();
  VoxelizeConfig& config = parsed->args.config;
  CLI::App* sub = sensor.add_subcommand("voxelize", "A point cloud into a grid of voxels");
  sub->footer(
      "examples:\n  amdahl sensor voxelize scan.bin --voxel-size 0.2\n  amdahl sensor voxelize scan.ply --voxel-size "
      "0.2 "
      "--grid 200x200x40 --min -20,-20,-2 --mode mean --output grid.npy");
  sub->add_option("cloud", config.input, ".bin of KITTI or nuScenes, .npy of [N, 3 + F], or .ply")->required();
  sub->add_option("--voxel-size", config.voxel_size, "Edge of a voxel, in the points' unit");
  sub->add_option("--grid", parsed->grid, "Voxels per axis, 128 or 200x200x40 (default: fitted around the points)");
  sub->add_option("--min", parsed->minimum, "Least corner x,y,z (default: fitted, or centred with --grid)");
  sub->add_option("--mode", parsed->mode, "count, occupancy, bitmask, mean or max")->capture_default_str();
  sub->add_option("--layout", parsed->layout, "xyz or zyx")->capture_default_str();
  sub->add_option("--bounds", parsed->bounds, "Points outside: drop, or clamp to the border")->capture_default_str();
  sub->add_flag("--deterministic", config.options.deterministic, "mean: the same bits for any order of the points");
  sub->add_option("--output,-o", config.output, ".npy of the grid, or .npz with its place (default: none)");
  add_cloud_file_options(sub, config.file);
  add_place(sub, config.place);
  add_talk(sub, parsed->args.talk);
  offer(sub, "--mode", {"count", "occupancy", "bitmask", "mean", "max"});
  offer(sub, "--layout", {"xyz", "zyx"});
  offer(sub, "--bounds", {"drop", "clamp"});
  offer_files(sub, {"cloud", "--output"});
  return {sub, [parsed, sub](const std::string&) { return run_parsed_voxelize(*sub, *parsed); }};
}

struct ParsedTimeline {
  TimelineArgs args;
  std::string extrapolation = "hold";
  TableTexts table;
};

void add_timeline(CLI::App* sub, ParsedTimeline& parsed) {
  TimelineConfig& config = parsed.args.config;
  sub->add_option("--rate", config.rate_hz, "Targets per second (per unit of the file's times)");
  sub->add_option("--targets", config.num_targets, "Or so many, evenly from first to last")->check(kWhole);
  sub->add_option("--begin", config.begin, "Time of the first target (default: where all streams have samples)");
  sub->add_option("--end", config.end, "Time that the targets reach");
  sub->add_option("--extrapolation", parsed.extrapolation, "Outside a stream's times: hold, linear or linear-right")
      ->capture_default_str();
  sub->add_option("--output,-o", config.output, ".npz of times and values, or .npy of values (default: none)");
  add_track_file_options(sub, parsed.table, config.file);
  add_place(sub, config.place);
  add_talk(sub, parsed.args.talk);
  offer(sub, "--extrapolation", {"hold", "linear", "linear-right"});
  offer_files(sub, {"--output"});
}

Command timeline_command(CLI::App* sub, const std::shared_ptr<ParsedTimeline>& parsed,
                         int (*command)(const TimelineArgs&)) {
  return {sub, [parsed, sub, command](const std::string&) {
            TimelineConfig& config = parsed->args.config;
            require_place("--output", config.output);
            finish_table_options(parsed->table, config.file.delimiter, config.file.missing_values);
            config.extrapolation = one_of<Extrapolation>("--extrapolation", parsed->extrapolation,
                                                         {{"hold", Extrapolation::hold},
                                                          {"linear", Extrapolation::linear},
                                                          {"linear-right", Extrapolation::linear_right}});
            if (sub->count("--targets") > 0 && config.num_targets < 1)
              throw Error(Cause::usage, fmt::format("--targets is {}", config.num_targets), "at least 1");
            return command(parsed->args);
          }};
}

Command define_resample(CLI::App& sensor) {
  auto parsed = std::make_shared<ParsedTimeline>();
  CLI::App* sub = sensor.add_subcommand("resample", "Trajectories onto evenly spaced times");
  sub->footer(
      "examples:\n  amdahl sensor resample run.csv --rate 50 --output run.npy\n  amdahl sensor resample run.npz "
      "--stream "
      "arm --targets 256 --output arm.npz");
  sub->add_option("trajectories", parsed->args.config.input, ".csv, .tsv, .txt or .npz")->required();
  sub->add_option("--stream", parsed->args.config.stream, "Which of the file's streams");
  add_timeline(sub, *parsed);
  offer_files(sub, {"trajectories"});
  return timeline_command(sub, parsed, resample_command);
}

Command define_fuse(CLI::App& sensor) {
  auto parsed = std::make_shared<ParsedTimeline>();
  CLI::App* sub = sensor.add_subcommand("fuse", "Streams of several sensors onto common times, side by side");
  sub->footer("example:\n  amdahl sensor fuse streams.npz --rate 50 --output fused.npz");
  sub->add_option("streams", parsed->args.config.input, ".npz of NAME_times and NAME")->required();
  add_timeline(sub, *parsed);
  offer_files(sub, {"streams"});
  return timeline_command(sub, parsed, fuse_command);
}

}  // namespace

std::vector<Command> define_sensor_commands(CLI::App& app) {
  CLI::App* sensor = app.add_subcommand("sensor", "Point clouds into voxels, trajectories onto new times");
  sensor->require_subcommand(0, 1);
  const Command alone{sensor, [sensor](const std::string&) {
                        fmt::print("{}", sensor->help("amdahl"));
                        return 0;
                      }};
  return {define_voxelize(*sensor), define_resample(*sensor), define_fuse(*sensor), define_sensor_bench(*sensor),
          alone};
}

}  // namespace amdahl::cli
