#include "sensor/measure/task.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/limited_devices.h"
#include "measure/sampling/rank_results.h"
#include "measure/sampling/rank_sampler.h"
#include "sensor/measure/check.h"
#include "sensor/measure/placement.h"
#include "sensor/ops/sm_limited.h"
#include "stats/stopping.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

/// What one rank measured under one placement.
struct TaskTimes {
  std::vector<double> round_us;              // its own tasks one after another
  std::vector<std::vector<double>> task_us;  // by task; empty where it is not this rank's
  std::vector<double> checked;               // elements, by task
};

template <class Archive>
void visit_fields(Archive& archive, TaskTimes& times) {
  archive(times.round_us, times.task_us, times.checked);
}

/// The tasks on one rank.
class TaskRank {
 public:
  TaskRank(RankContext& rank, const TaskPlan& plan, const SensorBenchSettings& settings)
      : rank_(rank),
        plan_(plan),
        settings_(settings),
        stream_(rank.device.make_stream("sensor")),
        queue_(rank.device, settings.make_transfer, settings.timeout_seconds),
        sampler_(rank.communicator, settings.timeout_seconds) {
    const auto index = static_cast<size_t>(rank.rank);
    ops_ = settings.make_ops(rank.device);
    if (!plan.speeds.empty()) ops_ = limit_speed(rank.device, std::move(ops_), plan.speeds[index]);
  }

  /// Every task lies on every device: which it will run is not yet known. Error{out_of_memory}.
  void make_workloads() {
    for (const SensorJob& task : plan_.tasks)
      workloads_.push_back(std::make_unique<SensorWorkload>(SensorRank{rank_.device, *ops_, rank_.communicator}, task,
                                                            ItemRange{0, task.num_items}, MergeMethod::none, 1,
                                                            *stream_, deadline()));
  }

  /// A row a task. Devices take turns, so that none shares the host's memory and cores with another.
  TaskCosts costs() {
    const bool homogeneous = plan_.mode == "task";
    TaskCosts costs(plan_.tasks.size(), std::vector<double>(static_cast<size_t>(rank_.world_size)));
    for (size_t task = 0; task < costs.size(); ++task)
      for (int device = 0; device < (homogeneous ? 1 : rank_.world_size); ++device) {
        const double own = device == rank_.rank ? alone_us(task) : 0;
        costs[task][static_cast<size_t>(device)] = sampler_.all(own)[static_cast<size_t>(device)];
      }
    if (homogeneous)
      for (auto& task : costs) std::fill(task.begin(), task.end(), task.front());
    return costs;
  }

  /// What is wrong with the results of this rank's tasks, empty when nothing is.
  std::string check(const std::vector<size_t>& own, TaskTimes& times) {
    times.checked.resize(plan_.tasks.size());
    for (const size_t task : own) {
      workloads_[task]->call(*stream_, 0);
      const std::vector<char> output = workloads_[task]->output(*stream_, 0, deadline());
      const SensorJob& job = plan_.tasks[task];
      const CheckResult result = check_output(job, {0, job.num_items}, output.data());
      times.checked[task] = static_cast<double>(result.num_checked);
      if (!result.fault.empty()) return fmt::format("{}: {}", workload_text(job), result.fault);
    }
    return {};
  }

  void measure(const std::vector<size_t>& own, TaskTimes& times) {
    times.task_us.resize(plan_.tasks.size());
    std::unique_ptr<Graph> graph = captured(own, settings_.calls);
    const auto round = [&] {
      rank_.communicator.barrier(deadline());
      return own.empty() ? 0.0 : timed_us(own, graph.get(), settings_.calls);
    };
    sampler_.warm_up({0, settings_.calls, block_of_samples(settings_.calls, round),
                      [&] { return rank_.device.health().sm_clock_mhz; }});
    for (int i = 0; i < settings_.samples; ++i) times.round_us.push_back(round());
    measure_each(own, times);
  }

 private:
  Deadline deadline() const { return Deadline::after_seconds(settings_.timeout_seconds); }

  void enqueue(const std::vector<size_t>& tasks, int rounds) {
    for (int i = 0; i < rounds; ++i)
      for (const size_t task : tasks) workloads_[task]->call(*stream_, 0);
  }

  /// Null where the device has no graphs.
  std::unique_ptr<Graph> captured(const std::vector<size_t>& tasks, int rounds) {
    if (tasks.empty() || !rank_.device.supports_graphs().ok) return nullptr;
    return rank_.device.capture(*stream_, [&] { enqueue(tasks, rounds); });
  }

  double timed_us(const std::vector<size_t>& tasks, Graph* graph, int rounds) {
    const std::unique_ptr<Event> start = rank_.device.make_event(), end = rank_.device.make_event();
    queue_.run(*stream_, [&] {
      stream_->stamp(*start);
      if (graph)
        graph->launch(*stream_);
      else
        enqueue(tasks, rounds);
      stream_->stamp(*end);
    });
    stream_->synchronize(deadline());
    return rank_.device.elapsed_us(*start, *end) / rounds;
  }

  double alone_us(size_t task) {
    constexpr int kSamples = 5;
    const std::vector<size_t> only{task};
    const std::unique_ptr<Graph> graph = captured(only, settings_.calls);
    std::vector<double> samples;
    while (samples.size() < 2 * kSamples) samples.push_back(timed_us(only, graph.get(), settings_.calls));
    return median_of(std::vector<double>(samples.end() - kSamples, samples.end()));
  }

  /// Rounds with stamps around each task, while the other devices do theirs.
  void measure_each(const std::vector<size_t>& own, TaskTimes& times) {
    std::vector<std::unique_ptr<Event>> marks;
    for (size_t i = 0; i <= own.size(); ++i) marks.push_back(rank_.device.make_event());
    const auto round = [&] {
      stream_->stamp(*marks.front());
      for (size_t i = 0; i < own.size(); ++i) {
        workloads_[own[i]]->call(*stream_, 0);
        stream_->stamp(*marks[i + 1]);
      }
    };
    std::unique_ptr<Graph> graph;
    if (!own.empty() && rank_.device.supports_graphs().ok) graph = rank_.device.capture(*stream_, round);
    for (int i = 0; i < settings_.samples; ++i) {
      rank_.communicator.barrier(deadline());
      if (graph)
        graph->launch(*stream_);
      else
        queue_.run(*stream_, round);
      stream_->synchronize(deadline());
      for (size_t task = 0; task < own.size(); ++task)
        times.task_us[own[task]].push_back(rank_.device.elapsed_us(*marks[task], *marks[task + 1]));
    }
  }

  RankContext& rank_;
  const TaskPlan& plan_;
  const SensorBenchSettings& settings_;
  std::unique_ptr<Stream> stream_;
  CallQueue queue_;
  RankSampler sampler_;
  std::unique_ptr<SensorOps> ops_;
  std::vector<std::unique_ptr<SensorWorkload>> workloads_;
};

// ---- records ----

std::string task_text(const SensorJob& job) {
  std::string text(to_string(job.operation));
  if (job.voxelizes()) text += fmt::format(" {}", to_string(job.options.mode));
  return text + ' ' + workload_text(job);
}

/// One placement, measured.
struct PlacedRun {
  std::string policy;
  TaskCosts costs;
  Placement placement;
  std::vector<TaskTimes> ranks;
  std::string error, launch;
};

class TaskRecords {
 public:
  TaskRecords(const TaskPlan& plan, const SensorBenchSettings& settings) : plan_(plan), settings_(settings) {}

  std::vector<Record> of(const PlacedRun& run) const {
    std::vector<Record> records;
    if (!run.ranks.empty())
      for (size_t task = 0; task < plan_.tasks.size(); ++task) records.push_back(of_task(run, task));
    records.push_back(of_all(run));
    return records;
  }

 private:
  void add_common(Record& record, const PlacedRun& run) const {
    if (plan_.mode == "hetero") record.axes["policy"] = run.policy;
    if (!run.launch.empty()) record.axes["launch"] = run.launch;
    if (!run.error.empty()) record.status = {Status::Kind::failed, run.error};
  }

  Record of_task(const PlacedRun& run, size_t task) const {
    SensorCell cell;
    cell.job = plan_.tasks[task];
    cell.mode = plan_.mode;
    cell.devices = plan_.devices;
    cell.path = plan_.path;
    Record record = start_sensor_record(cell, settings_.provenance);
    add_common(record, run);
    const auto device = static_cast<size_t>(run.placement.device_of[task]);
    record.axes["device"] = static_cast<int64_t>(device);
    const std::vector<double>& time = run.ranks[device].task_us[task];
    std::vector<double> throughput, bandwidth;
    for (const double us : time) {
      throughput.push_back(static_cast<double>(cell.job.num_items) / us * 1e6);
      bandwidth.push_back(useful_bytes(cell.job, 1) / us * 1e-3);  // bytes/us to GB/s
    }
    record.series = {{"time", "us", time},
                     {"throughput", throughput_unit(cell.job), throughput},
                     {"bandwidth", "GB/s", bandwidth},
                     {"device_time", "us", {median_of(time)}},
                     {"alone_time", "us", {run.costs[task][device]}},
                     {"checked", "1", {run.ranks[device].checked[task]}}};
    return record;
  }

  Record of_all(const PlacedRun& run) const {
    Record record;
    record.kind = "sensor";
    record.provenance = settings_.provenance;
    record.origin = origin_of_devices(record.provenance);
    std::vector<std::string> texts;
    bool one_type = true;
    for (const SensorJob& task : plan_.tasks) {
      texts.push_back(task_text(task));
      one_type &= task.type == plan_.tasks.front().type;
    }
    record.axes = {{"op", std::string("all")},
                   {"mode", plan_.mode},
                   {"devices", static_cast<int64_t>(plan_.devices)},
                   {"dtype", one_type ? std::string(to_string(plan_.tasks.front().type)) : std::string("mixed")},
                   {"workload", fmt::format("{}", fmt::join(texts, ", "))},
                   {"items", static_cast<int64_t>(plan_.tasks.size())},
                   {"path", plan_.path},
                   {"cache", std::string("hot")}};
    add_common(record, run);
    if (!run.ranks.empty()) add_series(record, run);
    return record;
  }

  void add_series(Record& record, const PlacedRun& run) const {
    std::vector<double> time(run.ranks.front().round_us.size()), throughput, bandwidth, busy, items, utilisation;
    double checked = 0, bytes = 0;
    for (const SensorJob& task : plan_.tasks) bytes += useful_bytes(task, 1);
    for (const TaskTimes& rank : run.ranks) {
      for (size_t i = 0; i < time.size(); ++i) time[i] = std::max(time[i], rank.round_us[i]);
      busy.push_back(median_of(rank.round_us));
      for (const double elements : rank.checked) checked += elements;
    }
    for (const double us : time) {
      throughput.push_back(static_cast<double>(plan_.tasks.size()) / us * 1e6);
      bandwidth.push_back(bytes / us * 1e-3);
    }
    for (const double us : busy) utilisation.push_back(100 * us / median_of(time));
    items.resize(run.ranks.size());
    for (const int device : run.placement.device_of) ++items[static_cast<size_t>(device)];
    record.series = {{"time", "us", time},
                     {"throughput", "tasks/s", throughput},
                     {"bandwidth", "GB/s", bandwidth},
                     {"device_time", "us", busy},
                     {"device_items", "1", items},
                     {"makespan_bound", "us", {makespan_bound_us(run.costs)}},
                     {"makespan_expected", "us", {run.placement.makespan_us()}},
                     {"utilisation", "percent", utilisation},
                     {"checked", "1", {checked}}};
  }

  const TaskPlan& plan_;
  const SensorBenchSettings& settings_;
};

std::vector<size_t> tasks_on(const Placement& placement, int device) {
  std::vector<size_t> own;
  for (size_t task = 0; task < placement.device_of.size(); ++task)
    if (placement.device_of[task] == device) own.push_back(task);
  return own;
}

std::vector<PlacedRun> measure_on(RankContext& rank, const TaskPlan& plan, const SensorBenchSettings& settings) {
  const Deadline deadline = Deadline::after_seconds(settings.timeout_seconds);
  TaskRank own(rank, plan, settings);
  PlacedRun run;
  run.error = error_of_allocating(rank.communicator, deadline, [&] { own.make_workloads(); });
  if (!run.error.empty()) return {run};
  run.costs = own.costs();
  run.launch = rank.device.supports_graphs().ok ? "graph" : "eager";
  std::vector<PlacedRun> runs;
  for (const std::string& policy : plan.policies) {
    run.policy = policy;
    run.placement = find_placement_policy(policy).place(plan.tasks, run.costs);
    const std::vector<size_t> tasks = tasks_on(run.placement, rank.rank);
    TaskTimes times;
    const Deadline patience = Deadline::after_seconds(settings.timeout_seconds);
    run.error = first_error(rank.communicator, own.check(tasks, times), patience);
    own.measure(tasks, times);
    run.ranks = exchange_results(rank.communicator, times, Deadline::after_seconds(settings.timeout_seconds));
    runs.push_back(run);
  }
  return runs;
}

}  // namespace

std::vector<Record> measure_sensor_tasks(Fleet& fleet, const TaskPlan& plan, const SensorBenchSettings& of_all) {
  SensorBenchSettings settings = of_all;
  limit_devices(settings.provenance, fleet.devices(), plan.speeds);
  const TaskRecords make(plan, settings);
  std::vector<Record> records;
  fleet.run(plan.devices, [&](RankContext& rank) {
    const std::vector<PlacedRun> runs = measure_on(rank, plan, settings);
    if (rank.rank != 0) return;
    for (const PlacedRun& run : runs)
      for (Record& record : make.of(run)) records.push_back(std::move(record));
  });
  return records;
}

}  // namespace amdahl
