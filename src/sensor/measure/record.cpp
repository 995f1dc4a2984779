// Records of sensor measurements.
#include <fmt/format.h>

#include <algorithm>

#include "base/limited_devices.h"
#include "sensor/measure/bench.h"
#include "sensor/measure/input.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

/// Sample by sample: the slowest rank's.
std::vector<double> slowest(const SensorExchange& ranks, std::vector<double> SensorTimes::*samples) {
  std::vector<double> all;
  for (const SensorTimes& rank : ranks) {
    all.resize(std::max(all.size(), (rank.*samples).size()));
    for (size_t i = 0; i < (rank.*samples).size(); ++i) all[i] = std::max(all[i], (rank.*samples)[i]);
  }
  return all;
}

/// Of the rank that came to the merge last, and so waited for nobody.
std::vector<double> merging(const SensorExchange& ranks) {
  std::vector<double> all = ranks.front().merge_us;
  for (const SensorTimes& rank : ranks)
    for (size_t i = 0; i < all.size(); ++i) all[i] = std::min(all[i], rank.merge_us[i]);
  return all;
}

std::vector<double> by_device(const SensorExchange& ranks, double SensorTimes::*value) {
  std::vector<double> values;
  for (const SensorTimes& rank : ranks) values.push_back(rank.*value);
  return values;
}

/// One sample a device, where every device says.
void add_card_series(Record& record, const SensorExchange& ranks) {
  const auto add = [&](const char* name, const char* unit, double SensorTimes::*value) {
    const std::vector<double> values = by_device(ranks, value);
    if (*std::min_element(values.begin(), values.end()) >= 0) record.series.push_back({name, unit, values});
  };
  add("utilisation", "percent", &SensorTimes::utilisation_percent);
  add("sm_clock_before", "MHz", &SensorTimes::clock_before_mhz);
  add("sm_clock", "MHz", &SensorTimes::clock_after_mhz);
  add("temperature", "C", &SensorTimes::temperature_c);
  add("power", "W", &SensorTimes::power_w);
  add("throttle_reasons", "bits", &SensorTimes::throttle_reasons);
}

void add_merge_series(Record& record, const std::vector<double>& compute, const std::vector<double>& merge) {
  std::vector<double> share;
  for (size_t i = 0; i < merge.size(); ++i) share.push_back(100 * merge[i] / (compute[i] + merge[i]));
  record.series.push_back({"merge_time", "us", merge});
  record.series.push_back({"communication_share", "percent", share});
}

/// What is compared: all of the work under strong scaling, one device's under weak scaling.
std::string compared_workload(const SensorCell& cell) {
  SensorJob job = cell.job;
  if (cell.mode == "data" && cell.scaling == Scaling::weak) job.num_items /= cell.devices;
  return workload_text(job);
}

}  // namespace

Record start_sensor_record(const SensorCell& cell, const Provenance& provenance) {
  Record record;
  record.kind = "sensor";
  record.provenance = provenance;
  record.origin = origin_of_devices(provenance);
  const SensorJob& job = cell.job;
  record.axes = {{"op", std::string(to_string(job.operation))},
                 {"mode", cell.mode},
                 {"devices", static_cast<int64_t>(cell.devices)},
                 {"dtype", std::string(to_string(job.type))},
                 {"workload", compared_workload(cell)},
                 {"items", job.num_items},
                 {"path", cell.path},
                 {"cache", std::string(cell.cold ? "cold" : "hot")},
                 {job.voxelizes() ? "points" : "batch", job.num_items}};
  if (!job.input.empty()) record.axes["input"] = job.input;
  if (job.cloud) {
    const DropCounts drops = drop_counts_of(job);
    record.axes["points_nan"] = drops.num_nan;
    record.axes["points_outside"] = drops.num_outside;
  }
  if (cell.mode == "data") record.axes["scaling"] = std::string(to_string(cell.scaling));
  if (!job.voxelizes()) return record;
  record.axes["voxel_mode"] = std::string(to_string(job.options.mode));
  record.axes["layout"] = std::string(to_string(job.options.layout));
  if (job.options.mode == VoxelMode::mean) record.axes["deterministic"] = job.options.deterministic;
  if (cell.mode == "data") record.axes["merge"] = std::string(to_string(cell.merge));
  return record;
}

void fill_sensor_record(Record& record, const SensorCell& cell, const SensorExchange& ranks) {
  for (const SensorTimes& rank : ranks)
    if (!rank.error.empty()) {
      record.status = {Status::Kind::failed, rank.error};
      break;
    }
  if (ranks.front().time_us.empty()) return;
  record.axes["launch"] = ranks.front().launch;
  const std::vector<double> time = slowest(ranks, &SensorTimes::time_us);
  const std::vector<double> compute = slowest(ranks, &SensorTimes::compute_us);
  // Without a merge every device has a grid of its own.
  const bool merged = cell.merge != MergeMethod::none;
  const double bytes = useful_bytes(cell.job, cell.job.voxelizes() && !merged ? cell.devices : 1);
  std::vector<double> throughput, bandwidth;
  for (const double us : time) {
    throughput.push_back(static_cast<double>(cell.job.num_items) / us * 1e6);
    bandwidth.push_back(bytes / us * 1e-3);  // bytes/us to GB/s
  }
  record.series = {{"time", "us", time},
                   {"throughput", throughput_unit(cell.job), throughput},
                   {"bandwidth", "GB/s", bandwidth},
                   {"call_time", "us", slowest(ranks, &SensorTimes::call_us)},
                   {"compute_time", "us", compute}};
  if (merged) add_merge_series(record, compute, merging(ranks));
  std::vector<double> medians;
  for (const SensorTimes& rank : ranks) medians.push_back(median_of(rank.compute_us));
  record.series.push_back({"calls_per_sample", "1", {ranks.front().calls}});
  record.series.push_back({"warmup_calls", "1", {ranks.front().warmup_calls}});
  record.series.push_back({"warmup_settled", "1", {ranks.front().warmup_settled}});
  record.series.push_back({"device_time", "us", medians});
  record.series.push_back({"device_items", "1", by_device(ranks, &SensorTimes::items)});
  record.series.push_back({"device_memory", "bytes", by_device(ranks, &SensorTimes::memory_bytes)});
  if (cell.cold) {
    record.series.push_back({"copies", "1", by_device(ranks, &SensorTimes::copies)});
    record.series.push_back({"copied_memory", "bytes", by_device(ranks, &SensorTimes::copied_bytes)});
    const std::vector<double> capped = by_device(ranks, &SensorTimes::copies_capped);
    if (*std::max_element(capped.begin(), capped.end()) > 0) record.axes["cache"] = std::string("rotated");
  }
  add_card_series(record, ranks);
  double checked = 0;
  for (const SensorTimes& rank : ranks) checked += rank.checked;
  record.series.push_back({"checked", "1", {checked}});
}

}  // namespace amdahl
