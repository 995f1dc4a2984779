// The only table of link models. Rates are GB/s in one direction, 1 GB = 10^9 bytes.
#include <fmt/format.h>

#include <algorithm>

#include "planner/scaling_model.h"

namespace amdahl {
namespace {

// 286.6 of 394 GB/s: all-reduce of 128 MiB between two H200s, results/h200/fabric/x2/all_reduce.
constexpr double kRingEfficiency = 0.73;
// All-reduce of 8 bytes takes 5.98 us between two and 8.93 us between four H200s (results/h200/fabric, NCCL 2.28.9):
// two and six ring steps.
constexpr double kNvlinkHopUs = (8.93 - 5.98) / 4;
constexpr double kBaseUs = 5.98 - 2 * kNvlinkHopUs;

const char* kSameEfficiency = "; all-reduce reaches 0.73 of it, as on nvlink4";

LinkModel nvlink4() {
  return {"nvlink4",
          394,
          0,
          kRingEfficiency,
          kBaseUs,
          kNvlinkHopUs,
          Origin::measured,
          Origin::measured,
          "copies between two H200s, NVLink 4 with 18 links (results/h200/fabric/x4/links); all-reduce of 128 MiB "
          "reaches 0.73 of it (results/h200/fabric/x2/all_reduce)",
          "all-reduce of 8 bytes over 2 and 4 H200s, 5.98 and 8.93 us, NCCL 2.28.9 (results/h200/fabric)"};
}

LinkModel pcie5() {
  return {"pcie5",
          50.7,
          0,
          kRingEfficiency,
          kBaseUs,
          kNvlinkHopUs * 1.0 / 0.6,
          Origin::modelled,
          Origin::modelled,
          std::string("PCIe 5.0 x16 that sends and receives at once, as measured between an H200 and its host "
                      "(results/h200/fabric/x4/links, device_to_host_bidirectional_memcpy_ce)") +
              kSameEfficiency,
          "as nvlink4, each step longer by 1.0 / 0.6, the latencies of a hop over PCIe and NVLink in NCCL's tuner "
          "(src/graph/tuning.cc, hwLat, ring LL)"};
}

LinkModel through_host() {
  return {"host",
          38.9,
          84.4,
          kRingEfficiency,
          kBaseUs,
          2 * 1.18,
          Origin::modelled,
          Origin::modelled,
          std::string("host memory without peer access: 38.9 GB/s for each of two and 21.1 for each of four H200s that "
                      "send and receive at once (results/h200/fabric, host_to_all_bidirectional_memcpy_ce)") +
              kSameEfficiency,
          "as nvlink4, each step a write to host memory and a read from it, 1.18 us each "
          "(results/h200/fabric/x4/links, host_device_latency_sm)"};
}

bool usable(const LinkSpec& link) { return link.source != link.destination && link.quarantine.empty(); }

}  // namespace

double LinkModel::ring_gbps(int64_t devices) const {
  const double shared = total_gbps > 0 ? total_gbps / static_cast<double>(devices) : gbps;
  return ring_efficiency * std::min(gbps, shared);
}

double LinkModel::latency_us(int64_t devices) const { return base_us + 2 * static_cast<double>(devices - 1) * hop_us; }

double LinkModel::transfer_us(double bytes, int64_t devices) const {
  const double n = static_cast<double>(devices);
  constexpr double kBytesPerUsOfGbps = 1000;
  return 2 * (n - 1) / n * bytes / (kBytesPerUsOfGbps * ring_gbps(devices));
}

const std::vector<LinkModel>& link_models() {
  static const std::vector<LinkModel> models{nvlink4(), pcie5(), through_host()};
  return models;
}

LinkModel link_of_machine(const MachineSpec& machine, const std::string& name) {
  const LinkSpec* slowest = nullptr;
  const bool measured = std::any_of(machine.links.begin(), machine.links.end(),
                                    [](const LinkSpec& link) { return usable(link) && link.measured_gbps > 0; });
  const auto rate = [&](const LinkSpec& link) { return measured ? link.measured_gbps : link.expected_gbps; };
  for (const LinkSpec& link : machine.links)
    if (usable(link) && rate(link) > 0 && (!slowest || rate(link) < rate(*slowest))) slowest = &link;
  if (!slowest)
    throw Error(Cause::usage, fmt::format("{} has no pair of devices with a rate", name),
                "the machine file of ``links machine=FILE`` on a machine with several GPUs, or `link=nvlink4`, "
                "pcie5 or host");
  LinkModel link = slowest->path == PathKind::nvlink ? nvlink4() : pcie5();
  link.name = name;
  link.gbps = rate(*slowest);
  link.rate_origin = measured ? Origin::measured : Origin::modelled;
  link.rate_source =
      fmt::format("{}, slowest pair, {} to {}, {}{}", name, slowest->source, slowest->destination,
                  measured ? "measured by amdahl links" : "the expected rate of its links", kSameEfficiency);
  if (slowest->latency_us > 0) {  // a ring step is a write to the neighbour and a poll for incoming data
    link.hop_us = slowest->latency_us;
    link.latency_source = fmt::format(
        "as {}, each step {:.2f} us, a load from the peer's memory measured by amdahl "
        "links",
        slowest->path == PathKind::nvlink ? "nvlink4" : "pcie5", link.hop_us);
  }
  link.latency_origin = Origin::modelled;
  return link;
}

}  // namespace amdahl
