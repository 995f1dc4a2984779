#include "sensor/measure/hetero.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "base/limited_devices.h"
#include "measure/sampling/rank_results.h"
#include "measure/sampling/rank_sampler.h"
#include "sensor/measure/check.h"
#include "sensor/ops/balance.h"
#include "sensor/ops/sm_limited.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

std::vector<double> on_fastest(const std::vector<double>& speeds) {
  std::vector<double> shares(speeds.size());
  shares[static_cast<size_t>(std::max_element(speeds.begin(), speeds.end()) - speeds.begin())] = 1;
  return shares;
}

std::vector<double> evenly(const std::vector<double>& speeds) { return std::vector<double>(speeds.size(), 1.0); }

std::vector<double> by_speed(const std::vector<double>& speeds) { return speeds; }

/// What was measured under one policy, over all ranks.
struct ShareRun {
  std::string policy, error;
  bool graphs = false;
  double checked = 0;
  int calls = 0;                                      // of a sample
  std::vector<double> alone_us;                       // by device, all items
  std::vector<std::vector<double>> call_us, part_us;  // [device][sample]
  std::vector<std::vector<int64_t>> items;            // [sample][device]
};

/// One rank of the run.
class ShareRank {
 public:
  ShareRank(RankContext& rank, const HeteroPlan& plan, const SensorBenchSettings& settings, HostResult& result)
      : rank_(rank), plan_(plan), settings_(settings), calls_(settings.calls), result_(result) {
    const auto index = static_cast<size_t>(rank.rank);
    ops_ = settings.make_ops(rank.device);
    if (!plan.speeds.empty()) ops_ = limit_speed(rank.device, std::move(ops_), plan.speeds[index]);
  }

  std::vector<ShareRun> measure() {
    ShareRun run;
    run.error = error_of_allocating(rank_.communicator, deadline(), [this] {
      part_ = std::make_unique<SensorPart>(rank_, *ops_, settings_.make_transfer, plan_.job, plan_.meet, result_,
                                           settings_.timeout_seconds);
    });
    if (!run.error.empty()) return {run};
    run.graphs = part_->uses_graphs();
    run.alone_us = alone();
    settle_calls(run);
    if (rank_.rank == 0) expected_ = part_->result_alone();
    std::vector<ShareRun> runs;
    for (const std::string& name : plan_.policies) {
      ShareRun own = run;
      own.policy = name;
      measure_policy(find_share_policy(name), own);
      runs.push_back(std::move(own));
    }
    return runs;
  }

 private:
  Deadline deadline() const { return Deadline::after_seconds(settings_.timeout_seconds); }

  /// Devices take turns, so that none shares the host's memory and cores with another.
  std::vector<double> alone() {
    RankSampler sampler(rank_.communicator, settings_.timeout_seconds);
    std::vector<double> us;
    for (int device = 0; device < rank_.world_size; ++device) {
      const double own = device == rank_.rank ? part_->alone_us(calls_) : 0;
      us.push_back(sampler.all(own)[static_cast<size_t>(device)]);
    }
    return us;
  }

  void settle_calls(ShareRun& run) {
    run.calls = settings_.calls;
    if (!run.graphs) calls_ = calls_of_sample(settings_, *std::min_element(run.alone_us.begin(), run.alone_us.end()));
    if (calls_ == run.calls) return;
    run.calls = calls_;
    run.alone_us = alone();
  }

  void measure_policy(const SharePolicy& policy, ShareRun& run) {
    constexpr int kWarmUp = 3;
    std::vector<double> speeds;
    for (const double us : run.alone_us) speeds.push_back(static_cast<double>(plan_.job.num_items) / us);
    SpeedShares following(speeds);
    std::vector<ItemRange> ranges = split_by_weight(plan_.job.num_items, policy.shares(speeds));
    check(policy, ranges, run);
    run.call_us.resize(speeds.size());
    run.part_us.resize(speeds.size());
    for (int i = 0; i < kWarmUp + settings_.samples; ++i) {
      const ItemRange mine = ranges[static_cast<size_t>(rank_.rank)];
      const PartTime own = policy.alone ? sample_alone(mine.count() > 0) : part_->sample(mine, calls_);
      std::vector<int64_t> items;
      std::vector<double> part_us;
      const std::vector<PartTime> all = exchange_results(rank_.communicator, own, deadline());
      for (size_t device = 0; device < all.size(); ++device) {
        items.push_back(ranges[device].count());
        part_us.push_back(all[device].part_us);
        if (i < kWarmUp) continue;
        run.call_us[device].push_back(all[device].call_us);
        run.part_us[device].push_back(all[device].part_us);
      }
      if (i < kWarmUp) continue;
      run.items.push_back(items);
      if (!policy.refreshed) continue;
      following.update(items, part_us);
      ranges = split_by_weight(plan_.job.num_items, following.shares());
    }
    if (policy.refreshed) check(policy, ranges, run);
  }

  PartTime sample_alone(bool mine) {
    rank_.communicator.barrier(deadline());
    if (!mine) return {};
    const double us = part_->sample_alone_us(calls_);
    return {us, us};
  }

  /// The first wrong element, on all ranks.
  void check(const SharePolicy& policy, const std::vector<ItemRange>& ranges, ShareRun& run) {
    const ItemRange mine = ranges[static_cast<size_t>(rank_.rank)];
    std::vector<char> got;
    if (!policy.alone) {
      got = part_->result(mine);
    } else {
      if (mine.count() > 0) result_.of_one_device = part_->result_alone();
      rank_.communicator.barrier(deadline());
      if (rank_.rank == 0) got = result_.of_one_device;
    }
    std::string fault;
    if (rank_.rank == 0) fault = fault_of(got, run);
    const std::string error = rank_.communicator.exchange(fault, deadline()).front();
    if (run.error.empty()) run.error = error;
  }

  std::string fault_of(const std::vector<char>& got, ShareRun& run) {
    const ItemRange all{0, plan_.job.num_items};
    if (!expected_checked_) {  // once: the host's recomputation takes long
      const CheckResult result = check_output(plan_.job, all, expected_.data());
      expected_checked_ = true;
      num_checked_ = static_cast<double>(result.num_checked);
      if (!result.fault.empty()) return "one device: " + result.fault;
    }
    run.checked = num_checked_;
    const VoxelizeOptions& options = plan_.job.options;
    if (plan_.job.voxelizes() && options.mode == VoxelMode::mean && !options.deterministic)
      return check_output(plan_.job, all, got.data()).fault;
    const auto differs = std::mismatch(got.begin(), got.end(), expected_.begin(), expected_.end());
    if (differs.first == got.end() && differs.second == expected_.end()) {
      const size_t values = got.size() / sizeof(float);
      run.checked = static_cast<double>(values);
      return {};
    }
    return fmt::format("byte {} of {} is not that of one device", differs.first - got.begin(), expected_.size());
  }

  RankContext& rank_;
  const HeteroPlan& plan_;
  const SensorBenchSettings& settings_;
  int calls_;  // of a sample
  HostResult& result_;
  std::unique_ptr<SensorOps> ops_;
  std::unique_ptr<SensorPart> part_;
  std::vector<char> expected_;  // rank 0: what one device makes of all items
  bool expected_checked_ = false;
  double num_checked_ = 0;
};

// ---- records ----

std::vector<double> slowest_of(const std::vector<std::vector<double>>& by_device) {
  std::vector<double> slowest = by_device.front();
  for (const auto& samples : by_device)
    for (size_t i = 0; i < samples.size(); ++i) slowest[i] = std::max(slowest[i], samples[i]);
  return slowest;
}

double median_share(const ShareRun& run, size_t device) {
  std::vector<double> items;
  for (const auto& sample : run.items) items.push_back(static_cast<double>(sample[device]));
  return median_of(items);
}

/// Items/us of each device where it was fastest: alone, or in any sample of any policy. What calls took counts too: no
/// sample is then faster than the bound, although a part is measured in one of a sample's calls only.
std::vector<double> fastest_speeds(const std::vector<ShareRun>& runs, int64_t num_items) {
  std::vector<double> speeds(runs.front().alone_us.size());
  const auto consider = [&](size_t device, int64_t items, double us) {
    if (us > 0) speeds[device] = std::max(speeds[device], static_cast<double>(items) / us);
  };
  for (const ShareRun& run : runs) {
    for (size_t device = 0; device < run.alone_us.size(); ++device) consider(device, num_items, run.alone_us[device]);
    for (size_t device = 0; device < run.part_us.size(); ++device)
      for (size_t i = 0; i < run.items.size(); ++i) {
        consider(device, run.items[i][device], run.part_us[device][i]);
        consider(device, run.items[i][device], run.call_us[device][i]);
      }
  }
  return speeds;
}

void add_devices(Record& record, const ShareRun& run, const SensorJob& job, const std::vector<double>& fastest,
                 double time_us) {
  std::vector<double> busy, items, utilisation, fastest_a_second;
  for (size_t device = 0; device < run.part_us.size(); ++device) {
    busy.push_back(median_of(run.part_us[device]));
    items.push_back(median_share(run, device));
    utilisation.push_back(std::min(100.0, 100 * busy.back() / time_us));
    fastest_a_second.push_back(fastest[device] * 1e6);
  }
  record.series.push_back({"device_time", "us", busy});
  record.series.push_back({"device_items", "1", items});
  record.series.push_back({"calls_per_sample", "1", {static_cast<double>(run.calls)}});
  record.series.push_back({"alone_time", "us", run.alone_us});
  record.series.push_back({"fastest_speed", throughput_unit(job), fastest_a_second});
  record.series.push_back({"makespan_bound", "us", {balanced_time_us(job.num_items, fastest)}});
  record.series.push_back({"utilisation", "percent", utilisation});
}

/// A series a device: its share of the items, block by block.
void add_shares(Record& record, const ShareRun& run, int64_t num_items) {
  for (size_t device = 0; device < run.part_us.size(); ++device) {
    std::vector<double> share;
    for (const auto& sample : run.items)
      share.push_back(100 * static_cast<double>(sample[device]) / static_cast<double>(num_items));
    record.series.push_back({fmt::format("share_{}", device), "percent", share});
  }
}

std::string merge_name(const HeteroPlan& plan) {
  if (plan.meet == PartsMeet::host) return "host";
  return std::string(to_string(plan.job.voxelizes() ? best_merge(plan.job.options.mode) : MergeMethod::none));
}

Record record_of(const ShareRun& run, const std::vector<double>& fastest, const HeteroPlan& plan,
                 const SensorBenchSettings& settings) {
  SensorCell cell;
  cell.job = plan.job;
  cell.mode = "hetero";
  cell.devices = plan.devices;
  cell.path = plan.path;
  Record record = start_sensor_record(cell, settings.provenance);
  record.axes["policy"] = run.policy;
  record.axes["merge"] = merge_name(plan);
  if (!run.error.empty()) record.status = {Status::Kind::failed, run.error};
  if (run.call_us.empty()) return record;
  record.axes["launch"] = std::string(run.graphs ? "graph" : "eager");
  const std::vector<double> time = slowest_of(run.call_us), compute = slowest_of(run.part_us);
  std::vector<double> throughput, bandwidth, merge;
  for (size_t i = 0; i < time.size(); ++i) {
    throughput.push_back(static_cast<double>(plan.job.num_items) / time[i] * 1e6);
    bandwidth.push_back(useful_bytes(plan.job, 1) / time[i] * 1e-3);  // bytes/us to GB/s
    merge.push_back(std::max(0.0, time[i] - compute[i]));
  }
  record.series = {{"time", "us", time},
                   {"throughput", throughput_unit(plan.job), throughput},
                   {"bandwidth", "GB/s", bandwidth},
                   {"compute_time", "us", compute},
                   {"merge_time", "us", merge}};
  add_devices(record, run, plan.job, fastest, median_of(time));
  if (find_share_policy(run.policy).refreshed) add_shares(record, run, plan.job.num_items);
  record.series.push_back({"checked", "1", {run.checked}});
  return record;
}

}  // namespace

const std::vector<SharePolicy>& share_policies() {
  static const std::vector<SharePolicy> rows{
      {"one-device", "all items on the fastest device", on_fastest, false, true},
      {"even", "as many items on each", evenly, false, false},
      {"proportional", "by the speed of each device alone", by_speed, false, false},
      {"refreshed", "by speed, following what every block of calls took", by_speed, true, false},
  };
  return rows;
}

const SharePolicy& find_share_policy(const std::string& name) {
  std::vector<std::string> names;
  for (const SharePolicy& row : share_policies()) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  throw Error(Cause::usage, fmt::format("`policies`: unknown value '{}'", printable(name, 40)),
              choices_hint(name, names));
}

std::vector<Record> measure_sensor_shares(Fleet& fleet, const HeteroPlan& plan, const SensorBenchSettings& of_all) {
  SensorBenchSettings settings = of_all;
  limit_devices(settings.provenance, fleet.devices(), plan.speeds);
  HostResult result(plan.job, plan.meet, plan.devices);
  std::vector<Record> records;
  fleet.run(plan.devices, [&](RankContext& rank) {
    const std::vector<ShareRun> runs = ShareRank(rank, plan, settings, result).measure();
    if (rank.rank != 0) return;
    const std::vector<double> fastest = fastest_speeds(runs, plan.job.num_items);
    for (const ShareRun& run : runs) records.push_back(record_of(run, fastest, plan, settings));
  });
  return records;
}

}  // namespace amdahl
