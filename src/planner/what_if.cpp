#include "planner/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "amdahl/error.h"
#include "planner/predict.h"

namespace amdahl {
namespace {

constexpr double kBytesPerGb = 1e9;
constexpr int kMostGpus = 4096, kMostNodes = 512;
constexpr double kLeastGb = 0.001, kMostGb = 1e6;

double number_of(std::string_view key, std::string_view value, double least, double most) {
  const bool whole = key != "memory-gb";
  double number = -1;
  try {
    number = parse_quantity(value, whole ? Unit::count : Unit::number, key);
  } catch (const Error&) {  // refused below, with the range
  }
  if (!(number >= least && number <= most))
    throw Error(Cause::usage, fmt::format("what-if {}: '{}' is no number from {} to {}", key, value, least, most),
                fmt::format("{}? or one of {} to {}", whole ? 8 : 80, least, most));
  return number;
}

/// The assumption that "8xh200" means; empty for other texts.
std::string meant_by(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const GpuKind* gpu = gpu_kind_of(text.substr(digits));
  return digits == 0 || !gpu ? "" : fmt::format("gpus={},gpu={}", text.substr(0, digits), gpu->name);
}

void set_rate(Calibration& calibration, const RateField& field, double value, const std::string& source) {
  for (CalibrationConstant& constant : calibration.constants)
    if (constant.name == field.name) {
      if (constant.value != value)
        constant.value = value, constant.origin = ConstantOrigin::assumed, constant.source = source;
      return;
    }
  calibration.constants.push_back(
      {std::string(field.name), value, std::string(field.unit), ConstantOrigin::assumed, source});
}

void set_rates(Calibration& calibration, const Rates& before, const Rates& after, const std::string& source) {
  for (const RateField& field : rate_fields())
    if (before.*field.member != after.*field.member) set_rate(calibration, field, after.*field.member, source);
}

void assume_gpu(Calibration& calibration, const GpuKind& gpu) {
  const GpuKind* measured = gpu_kind_of(calibration.device_name);
  if (!measured)
    throw Error(Cause::usage,
                fmt::format("what-if gpu={} from a calibration of '{}', which is no GPU that the catalogue has",
                            gpu.name, calibration.device_name),
                "a calibration of a GPU, or no machine file");
  const Rates before = rates_of(calibration);
  Rates after = before;
  const double compute = tflops_of(gpu, calibration.math) / tflops_of(*measured, calibration.math);
  const double memory = gpu.memory_gbps / measured->memory_gbps;
  after.gemm_tflops *= compute, after.batched_gemm_tflops *= compute;
  after.memory_gbps *= memory, after.gemm_gbps *= memory, after.optimizer_ps /= memory;
  after.cache_mb *= gpu.cache_mb / measured->cache_mb;
  after.gemm_units = gpu.multiprocessors;
  const std::string source =
      fmt::format("measured on {}, scaled by data sheets: {}", calibration.device_name, gpu.source);
  set_rates(calibration, before, after, source);
  const Rates linked = with_link(after, find_link_kind(gpu.link));
  set_rates(calibration, after, linked, std::string(find_link_kind(gpu.link).source));
  calibration.device_name = gpu.name;
  calibration.memory_bytes = static_cast<int64_t>(gpu.memory_gb * kBytesPerGb);
}

// An NVLink of a later generation than the GPU's, or any on one that has none, cannot be bought.
void require_link_of(const GpuKind* gpu, const LinkKind& link) {
  constexpr std::string_view kNvlink = "nvlink";  // and the generation
  if (!gpu || !link.name.starts_with(kNvlink)) return;
  if (!gpu->link.starts_with(kNvlink))
    throw Error(Cause::usage, fmt::format("what-if link={}: a GPU of kind {} has no NVLink", link.name, gpu->name),
                fmt::format("link={}", gpu->link));
  if (gpu->link < link.name)
    throw Error(Cause::usage, fmt::format("what-if link={}: a GPU of kind {} has {}", link.name, gpu->name, gpu->link),
                fmt::format("link={}", gpu->link));
}

void assume_link_and_memory(Calibration& calibration, const WhatIf& what_if, const GpuKind* gpu) {
  if (what_if.link) {
    require_link_of(gpu, *what_if.link);
    const Rates before = rates_of(calibration);
    set_rates(calibration, before, with_link(before, *what_if.link), std::string(what_if.link->source));
  }
  if (what_if.network) {
    const Rates before = rates_of(calibration);
    Rates after = before;
    after.node_devices = what_if.gpus / what_if.nodes;
    after.net_gbps = what_if.network->gbps * (what_if.adapters > 0 ? what_if.adapters : after.node_devices);
    after.net_us = what_if.network->alpha_us;
    set_rates(calibration, before, after, std::string(what_if.network->source));
  }
  if (what_if.memory_gb > 0) calibration.memory_bytes = static_cast<int64_t>(what_if.memory_gb * kBytesPerGb);
}

/// "net400", or "4xnet200".
void parse_network(std::string_view value, WhatIf& what_if) {
  const size_t x = value.find('x');
  const bool counted = x != std::string_view::npos && x > 0 && value.find_first_not_of("0123456789") == x;
  if (counted) what_if.adapters = static_cast<int>(number_of("network", value.substr(0, x), 1, 64));
  what_if.network = &find_link_kind(counted ? value.substr(x + 1) : value);
}

void require_whole_nodes(WhatIf& what_if, int node_gpus) {
  if (what_if.nodes == 0 && !what_if.network) return;
  if (what_if.nodes == 0)
    throw Error(Cause::usage, fmt::format("what-if network={}: of how many nodes", what_if.network->name), "nodes=2");
  if (!what_if.network)
    throw Error(Cause::usage, fmt::format("what-if nodes={} without a network", what_if.nodes), "network=net400");
  if (what_if.gpus == 0) what_if.gpus = what_if.nodes * node_gpus;
  if (what_if.gpus % what_if.nodes != 0 || what_if.gpus > kMostGpus)
    throw Error(Cause::usage,
                fmt::format("what-if gpus={},nodes={}: {}", what_if.gpus, what_if.nodes,
                            what_if.gpus > kMostGpus ? "too many" : "unequal nodes"),
                fmt::format("gpus={}", std::min(what_if.nodes * node_gpus, kMostGpus / what_if.nodes * what_if.nodes)));
}

}  // namespace

WhatIf parse_what_if(std::string_view text, int node_gpus) {
  WhatIf what_if;
  std::set<std::string_view> seen;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string_view item = text.substr(start, end - start);
    start = end + 1;
    const size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? "" : item.substr(equals + 1);
    static const std::vector<std::string> known{"gpus", "nodes", "link", "network", "gpu", "memory-gb"};
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      const std::string meant = meant_by(item);
      throw Error(Cause::usage, fmt::format("what-if does not know '{}'", meant.empty() ? key : item),
                  meant.empty()
                      ? choices_hint(key, known)
                      : meant + "? or one of gpus=N, nodes=N, link=KIND, network=KIND, gpu=KIND, memory-gb=N");
    }
    if (!seen.insert(key).second)
      throw Error(Cause::usage, fmt::format("what-if has two values of {}", key), "one of them");
    if (key == "gpus") what_if.gpus = static_cast<int>(number_of(key, value, 1, kMostGpus));
    if (key == "nodes") what_if.nodes = static_cast<int>(number_of(key, value, 2, kMostNodes));
    if (key == "network") parse_network(value, what_if);
    if (key == "memory-gb") what_if.memory_gb = number_of(key, value, kLeastGb, kMostGb);
    if (key == "link") what_if.link = &find_link_kind(value);
    if (key == "gpu" && value.ends_with(".toml"))
      what_if.gpu_file = value;
    else if (key == "gpu")
      what_if.gpu = find_gpu_kind(value);
  }
  require_whole_nodes(what_if, node_gpus);
  if (what_if.link && what_if.gpus == 1)
    throw Error(Cause::usage, fmt::format("what-if gpus=1,link={}: one device has no link", what_if.link->name),
                "gpus=2 or more, or no link");
  return what_if;
}

Calibration assume(const Calibration& measured, const WhatIf& what_if) {
  Calibration calibration = measured;
  if (what_if.gpu) assume_gpu(calibration, *what_if.gpu);
  assume_link_and_memory(calibration, what_if, what_if.gpu ? &*what_if.gpu : gpu_kind_of(calibration.device_name));
  return calibration;
}

Calibration assume(const WhatIf& what_if, std::string_view math) {
  if (!what_if.gpu)
    throw Error(Cause::usage, "neither a machine file nor an assumed GPU",
                "`machine=FILE` of ``calibrate machine=FILE``, or `what_if=gpus=8,gpu=h200`");
  const GpuKind& gpu = *what_if.gpu;
  Calibration calibration = calibration_of(rates_of_kind(gpu, math), ConstantOrigin::assumed, gpu.source);
  for (CalibrationConstant& constant : calibration.constants)
    constant.origin = ConstantOrigin::assumed, constant.source = gpu.source;
  calibration.device_kind = "cuda";
  calibration.device_name = gpu.name;
  calibration.math = std::string(math);
  calibration.memory_bytes = static_cast<int64_t>(gpu.memory_gb * kBytesPerGb);
  calibration.interval_factor = 3;  // nothing was measured
  assume_link_and_memory(calibration, what_if, &gpu);
  return calibration;
}

}  // namespace amdahl
