// Study-run records as the measuring engine writes them, with made-up but fixed times.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "base/philox.h"

namespace amdahl::test {

struct FakeCell {
  std::string model = "medium";
  int64_t num_parameters = 54'403;
  int64_t global_batch = 64;
  int64_t devices = 1;
  double step_us = 1000;
  int num_runs = 5;
  std::string scaling = "strong";
  std::string launch = "eager";
  std::string math = "fp32";
  std::string device_kind = "cuda";
  bool account = true;
  double noise = 0.01;  // half-width of a uniform spread
  uint64_t stream = 1;
  int processes = 0;  // that the runs are spread over; 0: records without the axis
};

inline Provenance fake_provenance(const std::string& device_kind) {
  Provenance p;
  p.tool_version = "0.1.0";
  p.commit = "abc1234";
  p.command_line = "amdahl study --model medium | tee log";
  p.start_time = "2026-01-02T03:04:05Z";
  p.host = "node-1";
  p.device_kind = device_kind;
  p.seed = 42;
  p.facts = {{"device.0.name", device_kind == "cuda" ? "GPU_X" : "CPU virtual"}, {"cuda", "13.0"}};
  return p;
}

inline Record fake_record(const FakeCell& cell, int64_t run) {
  Record r;
  r.kind = "study-run";
  r.provenance = fake_provenance(cell.device_kind);
  r.axes = {{"model", cell.model},
            {"num_parameters", cell.num_parameters},
            {"global_batch", cell.global_batch},
            {"devices", cell.devices},
            {"strategy", std::string(cell.devices > 1 ? "data_parallel" : "single")},
            {"backend", std::string(cell.device_kind == "cuda" ? "cuda" : "cpu")},
            {"launch", cell.launch},
            {"math", cell.math},
            {"scaling", cell.scaling},
            {"optimizer", std::string("adam")},
            {"accumulate", int64_t{1}},
            {"overlap", true},
            {"bucket_bytes", int64_t{25} << 20},
            {"data", std::string("synthetic")},
            {"run", run},
            {"steps", int64_t{100}},
            {"warmup", int64_t{10}}};
  if (cell.processes > 0) r.axes["process"] = run * cell.processes / cell.num_runs;
  const Philox4 bits = philox(cell.stream, static_cast<uint32_t>(run), static_cast<uint32_t>(cell.devices),
                              static_cast<uint32_t>(cell.global_batch), 0);
  const double step = cell.step_us * (1 + cell.noise * (2.0 * (bits.v[0] / 4294967296.0) - 1));
  const bool several = cell.devices > 1;
  r.series = {{"step_time", "us", {step}},
              {"throughput", "samples/s", {static_cast<double>(cell.global_batch) / step * 1e6}},
              {"loss_first", "1", {1.5}},
              {"loss_last", "1", {0.5}},
              {"memory_peak", "bytes", {2.5e9 + 1e6 * static_cast<double>(run)}}};
  if (cell.device_kind == "cuda") r.series.push_back({"utilisation", "percent", {several ? 60.0 : 82.0}});
  if (cell.account) {
    const double exposed = several ? 0.2 : 0.0;
    const std::vector<std::pair<const char*, double>> parts{{"account_step", 1.0},
                                                            {"forward", 0.25},
                                                            {"backward", 0.35 - exposed / 2},
                                                            {"compute", 0.6 - exposed / 2},
                                                            {"exposed_communication", exposed},
                                                            {"waiting", 0.05},
                                                            {"launch_gaps", 0.15 - exposed / 2},
                                                            {"input", 0.05},
                                                            {"optimizer", 0.15},
                                                            {"total_communication", 1.5 * exposed}};
    for (const auto& [name, share] : parts) r.series.push_back({name, "us", {share * step}});
    r.series.push_back({"comm_bytes", "bytes", {several ? 4.0 * static_cast<double>(cell.num_parameters) : 0.0}});
  }
  return r;
}

inline void add_cell(std::vector<Record>& records, const FakeCell& cell) {
  for (int run = 0; run < cell.num_runs; ++run) records.push_back(fake_record(cell, run));
}

inline Record without_result(Record record, Status::Kind kind, const std::string& reason) {
  record.status = {kind, reason};
  record.series.clear();
  return record;
}

/// A small study: two batches on 1 and 2 devices, strong and weak, one waived and one partly failed cell.
inline std::vector<Record> sample_study(const std::string& device_kind = "cuda") {
  std::vector<Record> records;
  for (const int64_t batch : {64, 128}) {
    FakeCell one{.global_batch = batch, .step_us = 10.0 * static_cast<double>(batch), .device_kind = device_kind};
    FakeCell two = one;
    two.devices = 2;
    two.step_us = batch == 64 ? one.step_us * 1.25 : one.step_us / 1.6;
    add_cell(records, one);
    add_cell(records, two);
  }
  FakeCell weak{.global_batch = 128, .devices = 2, .step_us = 700, .scaling = "weak", .device_kind = device_kind};
  add_cell(records, weak);
  FakeCell wide{.global_batch = 128, .devices = 4, .device_kind = device_kind};
  records.push_back(without_result(fake_record(wide, 0), Status::Kind::waived, "4 devices asked for, 2 are here"));
  FakeCell failing{.global_batch = 64, .devices = 2, .device_kind = device_kind};
  records.push_back(without_result(fake_record(failing, 5), Status::Kind::failed, "out of memory"));
  return records;
}

}  // namespace amdahl::test
