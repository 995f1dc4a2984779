#include "measure/local_fleet.h"

#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <map>
#include <numeric>

#include "comm/flight_recorder.h"
#include "spec/failure.h"

namespace amdahl {
namespace {

std::vector<DeviceSpec> specs_of(const std::vector<std::unique_ptr<Device>>& devices) {
  std::vector<DeviceSpec> specs;
  for (const auto& device : devices) specs.push_back(device->spec());
  return specs;
}

void end_waits_when(FleetParts& parts, const std::function<bool()>& stopped) {
  for (auto& device : parts.devices) device->end_waits_when(stopped);
}

std::vector<int> ranks_from_zero(size_t count) {
  std::vector<int> ranks(count);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// Out of memory in one cell does not end the run.
void leave_failure_of(const FleetParts& parts, const std::string& run_dir, const Error& error) {
  if (parts.on_failure && error.cause() != Cause::out_of_memory) parts.on_failure(run_dir, error);
}

/// The folder of a run's flight recorders. The root recreates it: old contents belong to an earlier run.
std::filesystem::path flight_folder(const std::string& run_dir, bool is_root) {
  std::filesystem::path folder = std::filesystem::path(run_dir) / kFlightFolder;
  std::error_code error;
  if (is_root) std::filesystem::remove_all(folder, error);
  if (is_root) std::filesystem::create_directory(folder, error);
  return folder;
}

/// Model operations of each device of a fleet.
class FleetOps {
 public:
  explicit FleetOps(const FleetParts& parts) : parts_(parts), made_(parts.devices.size()) {
    if (parts.needs == FleetNeeds::devices) return;
    for (size_t i = 0; i < made_.size(); ++i) made_[i] = parts.make_ops(*parts.devices[i]);
  }
  /// Each device's operations are used by one thread at a time.
  OpsOnDemand of(size_t i) {
    return OpsOnDemand([this, i]() -> Ops& {
      if (!made_[i]) made_[i] = parts_.make_ops(*parts_.devices[i]);
      return *made_[i];
    });
  }

 private:
  const FleetParts& parts_;
  std::vector<std::unique_ptr<Ops>> made_;  // by device; null: not created yet
};

class ThreadFleet final : public Fleet {
 public:
  ThreadFleet(FleetParts parts, MakeCommunicators make_communicators)
      : parts_(std::move(parts)),
        ops_(parts_),
        specs_(specs_of(parts_.devices)),
        flights_(std::make_shared<FlightLog>(ranks_from_zero(parts_.devices.size()))),
        make_communicators_(std::move(make_communicators)) {}

  const std::string& device_kind() const override { return parts_.device_kind; }
  int num_devices() const override { return static_cast<int>(parts_.devices.size()); }
  const std::vector<DeviceSpec>& devices() const override { return specs_; }
  bool is_root() const override { return true; }
  std::string agree(const std::string& root_value) override { return root_value; }
  std::string record_flights(const std::string& run_dir) override {
    if (!run_dir.empty()) flights_->keep_in(flight_folder(run_dir, true));
    run_dir_ = run_dir;
    return run_dir;
  }
  void end_runs_when(const std::function<bool()>& stopped) override { end_waits_when(parts_, stopped); }

  void run(int num_devices, const std::function<void(RankContext&)>& fn) override {
    auto& group = groups_[num_devices];  // communicators are cached: creating them is slow on GPUs
    if (group.empty()) {
      std::vector<Device*> devices;
      for (int i = 0; i < num_devices; ++i) devices.push_back(parts_.devices[static_cast<size_t>(i)].get());
      if (num_devices == 1)
        group.push_back(make_lone_communicator(*devices.front()));
      else
        group = make_communicators_(devices);
      for (size_t i = 0; i < group.size(); ++i) group[i]->set_flight_recorder(FlightLog::recorder(flights_, i));
    }
    try {
      run_rank_threads(
          num_devices,
          [&](int rank) {
            const auto i = static_cast<size_t>(rank);
            parts_.devices[i]->bind_thread();
            RankContext context{rank, num_devices, *parts_.devices[i], ops_.of(i), *group[i]};
            fn(context);
          },
          [&](const Error& cause) {
            for (auto& communicator : group) communicator->abort(cause);
          });
    } catch (const Error& error) {
      retire(num_devices);
      leave_failure_of(parts_, run_dir_, error);
      throw;
    } catch (...) {
      retire(num_devices);
      throw;
    }
  }

 private:
  using Group = std::vector<std::unique_ptr<Communicator>>;

  /// Aborted communicators are unusable, and trainers of other runs may still refer to them.
  void retire(int num_devices) { retired_.push_back(std::move(groups_.extract(num_devices).mapped())); }

  FleetParts parts_;
  FleetOps ops_;
  std::vector<DeviceSpec> specs_;
  std::shared_ptr<FlightLog> flights_;
  std::string run_dir_;
  MakeCommunicators make_communicators_;
  std::map<int, Group> groups_;
  std::vector<Group> retired_;
};

class ProcessFleet final : public Fleet {
 public:
  ProcessFleet(FleetParts parts, const LaunchContext& launch, std::unique_ptr<RendezvousStore> store,
               MakeGroup make_group, const EngineConfig& config)
      : parts_(std::move(parts)),
        ops_(parts_),
        specs_(specs_of(parts_.devices)),
        launch_(launch),
        flights_(std::make_shared<FlightLog>(std::vector<int>{launch.rank})),
        store_(std::move(store)),
        make_group_(std::move(make_group)),
        timeout_seconds_(config.timeout_seconds),
        on_fatal_(config.on_fatal) {}

  ~ProcessFleet() override {
    groups_.clear();
    // peers wait for this rank's next decision and must learn that it will not come
    if (std::uncaught_exceptions() > 0)
      store_->report_failure(Error(
          Cause::rank_died, fmt::format("rank {} ended with an error of its own", launch_.rank), {}, launch_.rank));
    store_->leave();
  }

  const std::string& device_kind() const override { return parts_.device_kind; }
  int num_devices() const override { return launch_.world_size; }
  const std::vector<DeviceSpec>& devices() const override { return specs_; }
  bool is_root() const override { return launch_.rank == 0; }

  void end_runs_when(const std::function<bool()>& stopped) override {
    end_waits_when(parts_, stopped);
    store_->report_when(stopped);
  }

  std::string agree(const std::string& root_value) override {
    const std::string key = "agree/" + std::to_string(agreements_++);
    if (is_root()) {
      store_->set(key, root_value);
      return root_value;
    }
    return store_->get(key, 0, Deadline::after_seconds(timeout_seconds_ * kPatience));
  }

  std::string record_flights(const std::string& given) override {
    if (is_root() && !given.empty()) flight_folder(given, true);
    std::string run_dir = agree(given);
    if (run_dir.empty()) return run_dir;
    flights_->keep_in(flight_folder(run_dir, false));
    run_dir_ = run_dir;
    if (on_fatal_)
      store_->set_failure_handler([run_dir, leave = parts_.on_failure, on_fatal = on_fatal_](const Error& error) {
        if (leave) leave(run_dir, error);
        on_fatal(error);
      });
    return run_dir;
  }

  void run(int num_devices, const std::function<void(RankContext&)>& fn) override {
    try {
      if (launch_.rank < num_devices) run_here(num_devices, fn);
    } catch (const Error& error) {
      const Error named = error.rank() >= 0 ? error : error.with_rank(launch_.rank);
      leave_failure_of(parts_, run_dir_, named);  // while the other ranks still exist
      store_->report_failure(named);
      throw named;
    }
  }

 private:
  // Processes outside a group wait at the next agreement while the group works: their deadline is longer by this many
  // seconds.
  static constexpr double kPatience = 60;

  void run_here(int num_devices, const std::function<void(RankContext&)>& fn) {
    std::unique_ptr<Communicator>& group = groups_[num_devices];
    parts_.devices[0]->bind_thread();
    if (!group && num_devices == 1) group = make_lone_communicator(*parts_.devices[0]);
    if (!group)
      group =
          make_group_(*store_, "group" + std::to_string(num_devices), launch_.rank, num_devices, *parts_.devices[0]);
    group->set_flight_recorder(FlightLog::recorder(flights_, 0));
    RankContext context{launch_.rank, num_devices, *parts_.devices[0], ops_.of(0), *group};
    fn(context);
  }

  FleetParts parts_;
  FleetOps ops_;
  std::vector<DeviceSpec> specs_;
  LaunchContext launch_;
  std::shared_ptr<FlightLog> flights_;
  std::string run_dir_;
  std::unique_ptr<RendezvousStore> store_;
  MakeGroup make_group_;
  double timeout_seconds_;
  void (*on_fatal_)(const Error&);
  std::map<int, std::unique_ptr<Communicator>> groups_;
  int agreements_ = 0;
};

}  // namespace

void require_world(const LaunchContext& launch, int max_devices) {
  if (max_devices < 2 && launch.multi_process())
    throw Error(Cause::usage,
                fmt::format("this command uses one device and {} started {} processes, each a device", launch.family,
                            launch.world_size),
                fmt::format("no launcher, or `devices` {} (of sensor bench with `mode=data`)", launch.world_size));
  if (launch.world_size < max_devices)
    throw Error(Cause::usage,
                fmt::format("{} devices were asked for but {} started {} processes", max_devices, launch.family,
                            launch.world_size),
                "one process per device, or fewer `devices`");
}

std::unique_ptr<RendezvousStore> join_job(const LaunchContext& launch, const EngineConfig& config,
                                          const JobFacts& facts) {
  std::unique_ptr<RendezvousStore> store = make_rendezvous(launch, config.timeout_seconds);
  if (config.on_fatal) store->set_failure_handler(config.on_fatal);
  agree_on_job(*store, facts, config.timeout_seconds);
  return store;
}

std::unique_ptr<Fleet> make_thread_fleet(FleetParts parts, MakeCommunicators make_communicators) {
  return std::make_unique<ThreadFleet>(std::move(parts), std::move(make_communicators));
}

std::unique_ptr<Fleet> make_process_fleet(FleetParts parts, const LaunchContext& launch,
                                          std::unique_ptr<RendezvousStore> store, MakeGroup make_group,
                                          const EngineConfig& config) {
  return std::make_unique<ProcessFleet>(std::move(parts), launch, std::move(store), std::move(make_group), config);
}

}  // namespace amdahl
