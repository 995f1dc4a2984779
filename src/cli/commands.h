// The commands. Each takes its parsed options and returns an exit code; main handles the errors they throw.
#pragma once

#include <string>

#include "amdahl/amdahl.h"
#include "amdahl/sensor_bench.h"
#include "amdahl/sensor_files.h"

namespace amdahl::cli {

/// Output of a command: results on stdout, progress and warnings on stderr.
struct Talk {
  bool json = false;
  bool quiet = false;
};

struct StudyArgs {
  StudyConfig config;
  bool dry_run = false;
  std::string metrics;  // file to write
  Talk talk;
};
struct TrainArgs {
  TrainConfig config;
  std::string metrics;  // file to write
  Talk talk;
};
struct AdviseArgs {
  AdviseConfig config;
  OutlookConfig outlook;  // with --assume-devices
  Talk talk;
};
struct CompareArgs {
  CompareConfig config;
  SensorCompareConfig sensors;  // with --single, --multi or --hetero
  bool markdown = false;
  Talk talk;
};
struct CalibrateArgs {
  CalibrateConfig config;
  Talk talk;
};
struct CostArgs {
  CostConfig config;
  bool markdown = false;
  Talk talk;
};
struct ReportArgs {
  PageConfig page;  // its runs are also those of the text report
  bool open = false;
  Talk talk;
};
struct PlansArgs {
  PlansConfig config;
  Talk talk;
};
struct InfoArgs {
  Talk talk;
};

struct TopoArgs {
  TopoConfig config;
  std::string format = "matrix";
  bool json = false;   // the same as format "json"
  std::string output;  // file; empty or "-": standard output
};

struct DoctorArgs {
  DoctorConfig config;
  std::string machine;  // file to write
  Talk talk;
};

struct LinksArgs {
  LinksConfig config;
  bool list = false;
  std::string heat_map;  // file to write
  std::string machine;   // file to write
  std::string metrics;   // file to write
  Talk talk;
};

struct CollectivesArgs {
  CollectivesConfig config;
  std::string format = "table";  // table, nccl-tests, json
  std::string json_file;
  std::string curves;   // file to write
  std::string metrics;  // file to write
  Talk talk;
};

struct ArenaArgs {
  ArenaConfig config;
  std::string format = "table";  // table, json
  std::string json_file, environment_file;
  std::string metrics;  // file to write
  Talk talk;
};

struct OneSidedArgs {
  OneSidedConfig config;
  std::string table;    // file to write
  std::string metrics;  // file to write
  Talk talk;
};

struct SensorBenchArgs {
  SensorBenchConfig config;
  std::string json_file;
  std::string metrics;  // file to write
  Talk talk;
};

int sensor_bench_command(const SensorBenchArgs& args);
struct VoxelizeArgs {
  VoxelizeConfig config;
  Talk talk;
};
struct TimelineArgs {
  TimelineConfig config;
  Talk talk;
};

int voxelize_command(const VoxelizeArgs& args);
int resample_command(const TimelineArgs& args);
int fuse_command(const TimelineArgs& args);
int collectives_command(const CollectivesArgs& args);
int doctor_command(DoctorArgs args);
int links_command(const LinksArgs& args);
int arena_command(const ArenaArgs& args);
/// Command-line arguments that make this program run the sweep.
std::vector<std::string> collectives_arguments(const CollectivesConfig& sweep);
int topo_command(const TopoArgs& args);
int study_command(const StudyArgs& args);
int train_command(const TrainArgs& args);
int advise_command(const AdviseArgs& args);
int outlook_command(const AdviseArgs& args);
int compare_command(const CompareArgs& args);
int sensor_compare_command(const CompareArgs& args);
int calibrate_command(const CalibrateArgs& args);
int cost_command(const CostArgs& args);
int report_command(const ReportArgs& args);
int info_command(const InfoArgs& args);
int plans_command(const PlansArgs& args);

/// Parses the command line and runs its command. Parse errors are Error{usage}.
int parse_and_run(int argc, char** argv);

/// Installs handlers of SIGINT and SIGTERM. Until a verb has called `signalled`, a signal ends the program at once;
/// afterwards, at the verb's next safe point, or after 8 s in any case. A second signal ends it at once.
void watch_signals();
/// Sets the remedy in the message of an interrupted command. A string literal: the pointer is kept.
void set_interrupted_remedy(const char* remedy);
bool signalled();
/// 130 or 143 after a signal, else 0.
int signal_exit_code();

}  // namespace amdahl::cli
