// `amdahl sensor bench`.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "amdahl/sensor.h"
#include "cli/environment.h"
#include "cli/file_options.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {
namespace {

struct SensorBenchTexts {
  std::string devices, shape = "30x512,100x64,200x12", batch_sizes, dtype = "f32", points, grid = "128",
                       voxel_modes = "count,occupancy,mean,max", layout = "xyz", scaling = "strong", gpus, machine,
                       speeds, policies, data_options;
};

struct SensorBenchArgs {
  SensorBenchConfig config;
  SensorBenchTexts texts;
  CLI::App* sub = nullptr;
  OutputOptions output;
};

/// Parses "30x512,100x64".
std::vector<StreamShape> parse_shapes(const std::string& text) {
  std::vector<StreamShape> streams;
  for (const std::string& item : split_list(text)) {
    const std::vector<int64_t> stream = parse_like("30x512", item, "--shape");
    streams.push_back({stream[0], stream[1]});
  }
  return streams;
}

template <class T>
std::vector<std::pair<std::string, T>> named(std::initializer_list<T> values) {
  std::vector<std::pair<std::string, T>> choices;
  for (const T value : values) choices.emplace_back(to_string(value), value);
  return choices;
}

std::vector<VoxelMode> parse_voxel_modes(const std::string& text) {
  std::vector<VoxelMode> modes;
  for (const std::string& name : split_list(text))
    modes.push_back(
        one_of("--voxel-modes", name,
               named({VoxelMode::count, VoxelMode::occupancy, VoxelMode::bitmask, VoxelMode::mean, VoxelMode::max})));
  return modes;
}

/// The devices that are limited by "1,0.5,0.8".
std::vector<SmLimit> limits_of(const std::vector<double>& speeds) {
  std::vector<SmLimit> limits;
  for (size_t i = 0; i < speeds.size(); ++i)
    if (speeds[i] != 1) limits.push_back({static_cast<int>(i), speeds[i]});
  return limits;
}

/// What clouds and streams have; both know `bin-type` and `missing` in their own file kinds alone.
std::vector<DataOption> bench_data_options(SensorFileOptions& file) {
  std::vector<DataOption> all = cloud_options(file);
  for (DataOption& one : track_options(file)) all.push_back(std::move(one));
  return all;
}

// NCCL reads its variables from the environment when it is opened: they must be set before the verb runs.
void keep_apart() { set_environment(nccl_settings("pcie-host", {}, process_environment())); }

int sensor_bench_command(const SensorBenchArgs& args) {
  TerminalObserver observer(args.output.quiet);
  const SensorBenchOutcome outcome = run_sensor_bench(args.config, observer);
  if (!outcome.is_root || args.config.repeat.is_child()) return 0;
  show_outcome(outcome, args.output);
  show_run(outcome.run_dir, args.output);
  if (!outcome.failed) return 0;
  throw Error(Cause::check_failed, "an operation gave a wrong result or did not fit",
              "the lines marked FAILED say which");
}

int run_parsed_bench(SensorBenchArgs& parsed, const std::string& command_line) {
  SensorBenchConfig& config = parsed.config;
  const SensorBenchTexts& texts = parsed.texts;
  if (!texts.devices.empty()) config.devices = parse_count_list(texts.devices, "--devices");
  if (!config.inputs.empty() && parsed.sub->count("--shape") > 0)
    throw Error(Cause::usage, "--shape with --input: streams are those of the file", "one of the two");
  require_positive(*parsed.sub, "--features", config.features);
  if (parsed.sub->count("--voxel-size") > 0 && !(config.voxel_size > 0))
    throw Error(Cause::usage, fmt::format("--voxel-size is {}", config.voxel_size), "a positive length");
  read_data_options(texts.data_options, bench_data_options(config.file));
  config.streams = parse_shapes(texts.shape);
  if (!texts.batch_sizes.empty()) config.batch_sizes = parse_count_list(texts.batch_sizes, "--batch-sizes");
  if (!texts.points.empty()) config.points = parse_count_list(texts.points, "--points", 0);
  config.grid = parse_grid(texts.grid);
  config.voxel_modes = parse_voxel_modes(texts.voxel_modes);
  config.type = one_of("--dtype", texts.dtype, named({DType::f32, DType::bf16, DType::f16}));
  config.layout = one_of("--layout", texts.layout, named({VoxelLayout::xyz, VoxelLayout::zyx}));
  config.scaling = one_of("--scaling", texts.scaling, named({Scaling::strong, Scaling::weak}));
  config.limit_sms = limits_of(parse_speeds(texts.speeds));
  config.policies = split_list(texts.policies);
  config.engine.gpus = parse_gpus(texts.gpus);
  use_machine(texts.machine, config.engine.machine);
  if (config.path == "host") keep_apart();
  config.engine.environment = process_environment();
  config.engine.command_line = command_line;
  config.engine.on_fatal = end_at_once;
  finish_html(parsed.output, config.output_dir, "sensor");
  finish_fresh_processes(*parsed.sub, config.repeat, config.output_dir, parsed.output);
  return sensor_bench_command(parsed);
}

void add_workload_options(CLI::App* sub, SensorBenchConfig& config, SensorBenchTexts& texts) {
  sub->add_option("--input", config.inputs,
                  "Data of a file instead of generated ones: a cloud (.ply, .bin of KITTI, .npy) or streams (.npz, "
                  ".csv); may be repeated")
      ->allow_extra_args(false);
  add_data_options(sub, texts.data_options, bench_data_options(config.file));
  sub->add_option("--dtype", texts.dtype, "Of streams and features: f32, bf16 or f16")->capture_default_str();
  sub->add_option("--shape", texts.shape, "fuse: samples x values of each stream; resample: the first one")
      ->capture_default_str();
  sub->add_option("--targets", config.targets, "fuse, resample: target times per row")->capture_default_str();
  sub->add_option("--batch-sizes", texts.batch_sizes,
                  "fuse, resample: rows, for example 4,256 (default: 4, or those of --input)");
  sub->add_option("--points", texts.points,
                  "voxelize: points, for example 500000,4000000 (default: 500000, or those of --input; of a file the "
                  "first so many)");
  sub->add_option("--grid", texts.grid, "voxelize: voxels, 128 of a cube or 200x200x40")->capture_default_str();
  sub->add_option("--voxel-size", config.voxel_size,
                  "voxelize: edge of a voxel (default: 0.1, or the least with which --grid holds all of --input)");
  sub->add_option("--features", config.features,
                  "voxelize: features per point, of mean and max (default: 8, or those of --input)");
  sub->add_option("--voxel-modes", texts.voxel_modes, "Of count, occupancy, bitmask, mean and max")
      ->capture_default_str();
  sub->add_option("--layout", texts.layout, "Of the grid in memory: xyz or zyx")->capture_default_str();
  sub->add_flag("--deterministic", config.deterministic, "mean: the same bits for any order and number of devices");
  sub->add_option("--distribution", config.distribution, "Where points lie: uniform, corner, readme, clusters or scan")
      ->capture_default_str();
}

void add_heterogeneous_options(CLI::App* sub, SensorBenchConfig& config, SensorBenchTexts& texts) {
  add_device_speeds(sub, texts.speeds);
  sub->add_option("--model", config.model, "pipeline: preset, or file, of the model trained on fused batches")
      ->capture_default_str();
  sub->add_flag("--cpu-share", config.cpu_share, "hetero: a CPU virtual device beside the GPUs");
  sub->add_option("--policy", texts.policies,
                  "hetero: of one-device, even, proportional, refreshed; of several operations one-device, even, "
                  "compute-here-memory-there, voxelize-here-fuse-there, cost (default: all)");
}

void offer_bench_values(CLI::App* sub) {
  offer_several(sub, "--op", {"fuse", "voxelize", "resample"});
  offer(sub, "--mode", {"single", "data", "task", "pipeline", "hetero"});
  offer(sub, "--scaling", {"strong", "weak"});
  offer(sub, "--dtype", {"f32", "bf16", "f16"});
  offer_several(sub, "--voxel-modes", {"count", "occupancy", "bitmask", "mean", "max"});
  offer(sub, "--layout", {"xyz", "zyx"});
  offer(sub, "--distribution", {"uniform", "corner", "readme", "clusters", "scan"});
  offer(sub, "--merge", {"auto", "collective", "bitmask", "peer", "bytes", "none", "host"});
  offer(sub, "--model", {"medium", "large", "medium-258k", "large-6.9m"});
  offer_several(sub, "--policy",
                {"one-device", "even", "proportional", "refreshed", "compute-here-memory-there",
                 "voxelize-here-fuse-there", "cost"});
  offer(sub, "--path", {"direct", "host"});
  offer(sub, "--cache", {"hot", "cold", "both"});
  offer_files(sub, {"--input", "--model", "--machine"});
  offer_lists(sub, {"--devices", "--batch-sizes", "--points", "--shape"});
}

}  // namespace

Command define_sensor_bench(CLI::App& sensor) {
  auto parsed = std::make_shared<SensorBenchArgs>();
  SensorBenchConfig& config = parsed->config;
  SensorBenchTexts& texts = parsed->texts;
  CLI::App* sub = sensor.add_subcommand("bench", "Times of an operation on one or several devices, results verified");
  parsed->sub = sub;
  sub->footer(
      "examples:\n  amdahl sensor bench --op voxelize --points 500000 --grid 128\n  amdahl sensor bench --op fuse "
      "--batch-sizes 4,256 --dtype bf16\n  amdahl sensor bench --mode data --devices 1,2,4 --voxel-modes count,max\n  "
      "amdahl sensor bench "
      "--mode hetero --device-speeds 1,0.5 --policy even,refreshed\n  amdahl sensor bench --input data/vlp16.ply");
  sub->add_option("--op", config.op, "fuse, voxelize or resample; task, hetero: several, with commas")
      ->capture_default_str();
  sub->add_option("--mode", config.mode,
                  "single; data: items split over devices; task: whole operations on different devices; pipeline: "
                  "fusing feeds training; hetero: heterogeneous devices")
      ->capture_default_str();
  sub->add_option("--devices", texts.devices, "Counts of devices, for example 1,2,4 (default: 1; data: 1, 2, 4, ...)");
  sub->add_option("--scaling", texts.scaling, "data: items of all devices (strong) or of each (weak)")
      ->capture_default_str();
  add_workload_options(sub, config, texts);
  sub->add_option("--merge", config.merge,
                  "data: how grids become one: auto, collective, bitmask, peer, bytes or none; hetero: auto or host")
      ->capture_default_str();
  add_heterogeneous_options(sub, config, texts);
  sub->add_option("--path", config.path, "Between devices: direct, or host (through its memory)")
      ->capture_default_str();
  sub->add_option("--cache", config.cache, "What calls find in the cache: hot, cold or both")->capture_default_str();
  sub->add_option("--samples", config.samples, "Samples per cell")->capture_default_str();
  sub->add_option("--calls", config.calls, "Calls per sample (default: 20; CPU 4, or as many as take 1 ms)");
  add_fresh_processes(sub, config.repeat);
  add_backend(sub, config.engine.backend, texts.gpus);
  sub->add_option("--machine", texts.machine, "Machine file of `amdahl links`: quarantined pairs are avoided");
  add_timeout(sub, config.engine.timeout_seconds);
  add_seed(sub, config.engine.seed);
  add_output_dir(sub, config.output_dir);
  add_output_options(sub, parsed->output);
  add_html(sub, parsed->output);
  offer_bench_values(sub);
  arrange(sub, {{"Operation", "--op --mode +--merge +--policy +--cpu-share +--model"},
                {"Data",
                 "--input +--data-options +--dtype --batch-sizes --shape --targets --points --grid +--voxel-size "
                 "+--features --voxel-modes +--layout +--deterministic +--distribution"},
                {"Devices", "--devices --backend --gpus +--scaling +--device-speeds +--path +--machine"},
                {"Sampling", "--samples +--calls +--cache +--processes +--timeout +--seed"},
                {"Output", "--output-dir --html"}});
  return {sub, [parsed](const std::string& command_line) { return run_parsed_bench(*parsed, command_line); }};
}

}  // namespace amdahl::cli
