// The only table of links that were not measured.
#include "planner/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "amdahl/error.h"

namespace amdahl {
namespace {

// Large all-reduces reach 286.6 of 394 GB/s of copies between H200s, and these 0.875 of 450: results/h200/fabric.
constexpr double kRing = 0.73, kCopy = 0.875;
constexpr double kNvlinkBase = 4.51, kNvlinkHop = 0.74;  // src/planner/link_models.cpp
constexpr double kNvlinkRamp = 12;  // NCCL over NVLink: 13 us for 1 MB, 33 for 4, 79 for 17, 250 for 67 (two H100)
constexpr double kPcieHop = 1.23, kHostHop = 2.36;
constexpr double kPcieCopy = 0.80;  // 50.7 of 63 GB/s while a GPU sends and receives

// Parts of the data sheet that large products and copies reach on an H200.
constexpr double kReachedGemm = 0.70, kReachedMemory = 0.85;
// Of products that round f32 operands to bf16: steps on H100s were fitted with 0.45 (steps_h100_bf16.csv).
constexpr double kConvertingGemm = 0.55;
// Steps of small models on an H100 were fitted with 4.5 to 6.1 TB/s (results/h100/planner), while its memory has 3.35.
constexpr double kSpill = 0.6;

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

template <class Kind>
const Kind& find_kind(const std::vector<Kind>& kinds, std::string_view name, const char* what, const char* also = "") {
  std::vector<std::string> names;
  for (const Kind& kind : kinds) {
    if (kind.name == lower_case(name)) return kind;
    names.emplace_back(kind.name);
  }
  throw Error(Cause::usage, fmt::format("unknown {} '{}'", what, name), choices_hint(name, names) + also);
}

}  // namespace

const std::vector<LinkKind>& link_kinds() {
  static const std::vector<LinkKind> kinds{
      {"nvlink3", 300 * kCopy * kRing, 0, kNvlinkBase, kNvlinkHop,
       "A100 data sheet, 600 GB/s both directions; as nvlink4"},
      {"nvlink4", 450 * kCopy * kRing, 0, kNvlinkBase, kNvlinkHop, "measured between H200s: results/h200/fabric"},
      {"nvlink5", 900 * kCopy * kRing, 0, kNvlinkBase, kNvlinkHop,
       "B200 data sheet, 1800 GB/s both directions; as nvlink4"},
      {"pcie3", 15.75 * kPcieCopy * kRing, 0, kNvlinkBase, kPcieHop, "PCI Express 3.0 x16; as pcie5"},
      {"pcie4", 31.5 * kPcieCopy * kRing, 0, kNvlinkBase, kPcieHop, "PCI Express 4.0 x16; as pcie5"},
      {"pcie5", 63 * kPcieCopy * kRing, 0, kNvlinkBase, kPcieHop,
       "PCI Express 5.0 x16; 50.7 GB/s measured to an H200's host"},
      {"host", 38.9 * kRing, 84.4 * kRing, kNvlinkBase, kHostHop, "copies through host memory: results/h200/fabric"},
      {"net100", 12.5 * 0.92, 0, 15, 5, "100 Gb/s network; as net200"},
      {"net200", 25 * 0.92, 0, 15, 5, "200 Gb/s network; 23 GB/s usual of it"},
      {"net400", 50 * 0.92, 0, 15, 5, "400 Gb/s network; as net200"},
  };
  return kinds;
}

const LinkKind& find_link_kind(std::string_view name) {
  constexpr std::string_view kRate = "/s";  // of 230GB/s, which is no kind: the nearest kind is proposed
  if (!name.ends_with(kRate)) return find_kind(link_kinds(), name, "link");
  const double gbps = parse_quantity(name, Unit::rate, "link");
  const auto distance = [&](const LinkKind& link) { return std::abs(std::log(std::max(gbps, 1e-3) / link.gbps)); };
  const LinkKind* near = &link_kinds().front();
  std::vector<std::string_view> names;
  for (const LinkKind& link : link_kinds()) {
    names.push_back(link.name);
    if (distance(link) < distance(*near)) near = &link;
  }
  throw Error(Cause::usage, fmt::format("link '{}' is a rate, and links are given by their kind", name),
              fmt::format("{}? or one of {}", near->name, fmt::join(names, ", ")));
}

Rates with_link(Rates rates, const LinkKind& link) {
  rates.tp_gbps = rates.dp_gbps = rates.pp_gbps = link.gbps;
  rates.tp_alpha_us = rates.dp_alpha_us = rates.pp_alpha_us = link.alpha_us;
  rates.hop_us = link.hop_us;
  rates.link_total_gbps = link.total_gbps;
  rates.ramp_us = link.name.substr(0, 6) == "nvlink" ? kNvlinkRamp : 0;
  return rates;
}

const GpuKind& find_gpu_kind(std::string_view name) {
  return find_kind(gpu_kinds(), name, "GPU",
                   ", or FILE.toml with its data sheet (data/gpu-a100-40gb.toml is an example)");
}

Rates rates_of_kind(const GpuKind& gpu, std::string_view math) {
  Rates rates;
  const double tflops = tflops_of(gpu, math);
  rates.gemm_tflops = tflops * kReachedGemm;
  rates.batched_gemm_tflops = tflops * kReachedGemm / 2;
  if (math == "bf16" || math == "fp16") rates.converting_gemm = kConvertingGemm;
  rates.gemm_half_waves = 0.5;  // the last wave is half full on average
  rates.interference = 0.4;     // an all-reduce occupies multiprocessors: steps_h100_bf16.csv
  rates.gemm_units = gpu.multiprocessors;
  // Rates of what the cache holds: cache.cpp slows those of steps that touch more.
  rates.cache_mb = gpu.cache_mb, rates.spill = rates.stream_spill = kSpill;
  rates.memory_gbps = gpu.memory_gbps * kReachedMemory * (1 + kSpill);
  rates.gemm_gbps = rates.memory_gbps;
  rates.optimizer_ps = 28 / rates.memory_gbps * 1e3;  // Adam reads and writes 28 bytes per parameter
  rates.launch_us = rates.softmax_launch_us = 2;  // a node of a graph: 18.6 us for nine of medium at one row on an H100
  rates.head_us = 20, rates.input_us = 10;
  rates.collective_launch_us = rates.collective_wait_us = 0;  // nodes of a graph too: in the latency
  rates.queue_exponent = 1;                                   // nodes of a graph: one after another
  rates.step_us = 5;
  return with_link(rates, find_link_kind(gpu.link));
}

}  // namespace amdahl
