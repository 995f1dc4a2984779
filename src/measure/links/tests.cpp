#include "measure/links/tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "measure/links/integrity.h"

namespace amdahl {
namespace {

using Cells = std::vector<LinkCell>;
enum class Side { read, write };  // issuer of a copy between devices: destination (read) or source (write)

constexpr int kDisturbance = 2;  // size factor of disturbing flows: they outlast the measured one

Flow between(int from, int to, Mover mover, Side side) {
  return {side == Side::read ? to : from, Place::on(from), Place::on(to), mover, 1};
}

template <class Make>
Cells ordered_pairs(const LinkScope& scope, const Make& make) {
  Cells cells;
  for (int from = 0; from < scope.devices; ++from)
    for (int to = 0; to < scope.devices; ++to)
      if (from != to) cells.push_back(make(from, to));
  return cells;
}

Cells pairs(const LinkScope& scope, Mover mover, Side side) {
  return ordered_pairs(scope, [&](int from, int to) {
    return LinkCell{scope.label(from), scope.label(to), {between(from, to, mover, side)}, Rate::first};
  });
}

/// Both directions of a pair at the same time; rates are added.
Cells both_directions(const LinkScope& scope, Mover mover, Side side) {
  return ordered_pairs(scope, [&](int from, int to) {
    return LinkCell{scope.label(from),
                    scope.label(to),
                    {between(from, to, mover, side), between(to, from, mover, side)},
                    Rate::sum};
  });
}

Place near_host(const LinkScope& scope, int device, HostMemory kind = HostMemory::pinned) {
  return Place::on_host(kind, scope.near_node(device));
}

Flow with_host(int device, const Place& host, bool to_device, Mover mover, int size_factor = 1) {
  const Place own = Place::on(device);
  return {device, to_device ? host : own, to_device ? own : host, mover, size_factor};
}

/// Copies between the host and each device, one at a time.
Cells host_alone(const LinkScope& scope, bool to_device, Mover mover, HostMemory kind = HostMemory::pinned) {
  Cells cells;
  for (int i = 0; i < scope.devices; ++i) {
    const Flow flow = with_host(i, near_host(scope, i, kind), to_device, mover);
    cells.push_back({to_device ? "host" : scope.label(i), to_device ? scope.label(i) : "host", {flow}, Rate::first});
  }
  return cells;
}

/// Copies between the host and each device, while larger copies run in the opposite direction (`opposite`) and between
/// the host and all other devices (`others`).
Cells host_disturbed(const LinkScope& scope, bool to_device, Mover mover, bool opposite, bool others) {
  Cells cells = host_alone(scope, to_device, mover);
  for (int i = 0; i < scope.devices; ++i) {
    std::vector<Flow>& flows = cells[static_cast<size_t>(i)].flows;
    const auto disturb = [&](int device, bool direction) {
      flows.push_back(with_host(device, near_host(scope, device), direction, mover, kDisturbance));
    };
    if (opposite) disturb(i, !to_device);
    for (int other = 0; others && other < scope.devices; ++other) {
      if (other == i) continue;
      disturb(other, to_device);
      if (opposite) disturb(other, !to_device);
    }
  }
  return cells;
}

/// Copies between the memory of every NUMA node and each device.
Cells host_by_node(const LinkScope& scope, bool to_device) {
  Cells cells;
  for (const int node : scope.numa_nodes)
    for (int i = 0; i < scope.devices; ++i) {
      const std::string host = node < 0 ? std::string("host") : fmt::format("node {}", node);
      const Flow flow = with_host(i, Place::on_host(HostMemory::pinned, node), to_device, Mover::engine);
      cells.push_back({to_device ? host : scope.label(i), to_device ? scope.label(i) : host, {flow}, Rate::first});
    }
  return cells;
}

/// All peers to one device (`inbound`), or one device to all peers; the rate is all bytes over the total time.
Cells one_and_all(const LinkScope& scope, bool inbound, Mover mover, Side side) {
  Cells cells;
  for (int i = 0; i < scope.devices; ++i) {
    LinkCell cell{inbound ? "all" : scope.label(i), inbound ? scope.label(i) : "all", {}, Rate::total};
    for (int other = 0; other < scope.devices; ++other) {
      if (other == i) continue;
      cell.flows.push_back(inbound ? between(other, i, mover, side) : between(i, other, mover, side));
    }
    if (!cell.flows.empty()) cells.push_back(std::move(cell));
  }
  return cells;
}

/// One cell of many flows; the rate is all bytes over the total time.
Cells together(std::string label, std::vector<Flow> flows) {
  if (flows.empty()) return {};
  return {{std::move(label), "total", std::move(flows), Rate::total}};
}

Cells all_to_all(const LinkScope& scope) {
  std::vector<Flow> flows;
  for (int step = 1; step < scope.devices; ++step)  // in each step, every device sends to a different one
    for (int from = 0; from < scope.devices; ++from)
      flows.push_back(between(from, (from + step) % scope.devices, Mover::engine, Side::write));
  return together("all to all", std::move(flows));
}

Cells ring(const LinkScope& scope) {
  std::vector<Flow> flows;
  for (int from = 0; scope.devices > 1 && from < scope.devices; ++from)
    flows.push_back(between(from, (from + 1) % scope.devices, Mover::engine, Side::write));
  return together("ring", std::move(flows));
}

/// Each device of the first half with its counterpart in the second, in both directions. With an odd number, one device
/// stays idle.
Cells bisection(const LinkScope& scope) {
  std::vector<Flow> flows;
  const int half = scope.devices / 2;
  for (int i = 0; i < half; ++i) {
    flows.push_back(between(i, i + half, Mover::engine, Side::write));
    flows.push_back(between(i + half, i, Mover::engine, Side::write));
  }
  return together("halves", std::move(flows));
}

Cells local_copies(const LinkScope& scope, Mover mover) {
  Cells cells;
  for (int i = 0; i < scope.devices; ++i)
    cells.push_back({scope.label(i), scope.label(i), {{i, Place::on(i), Place::on(i), mover, 1}}, Rate::first});
  return cells;
}

/// The same kernel on each device, reading local, peer and host memory.
Cells localities(const LinkScope& scope) {
  Cells cells = local_copies(scope, Mover::kernel);
  for (LinkCell& cell : pairs(scope, Mover::kernel, Side::read)) cells.push_back(std::move(cell));
  for (LinkCell& cell : host_alone(scope, true, Mover::kernel)) cells.push_back(std::move(cell));
  return cells;
}

/// A device's local memory, alone and during copies to and from the next device.
Cells memory_and_traffic(const LinkScope& scope) {
  Cells cells;
  for (const LinkCell& alone : local_copies(scope, Mover::kernel)) {
    cells.push_back({alone.row, "alone", alone.flows, Rate::first});
    if (scope.devices < 2) continue;
    const int own = alone.flows[0].issuer, other = (own + 1) % scope.devices;
    LinkCell busy{alone.row, "with traffic", alone.flows, Rate::first};
    busy.flows.push_back(between(other, own, Mover::engine, Side::write));
    busy.flows.push_back(between(own, other, Mover::engine, Side::write));
    cells.push_back(std::move(busy));
  }
  return cells;
}

Cells host_cells(const LinkScope& scope) { return host_alone(scope, true, Mover::kernel); }

constexpr auto kEngine = Mover::engine;
constexpr auto kKernel = Mover::kernel;
constexpr auto kRead = Side::read;
constexpr auto kWrite = Side::write;
constexpr auto kFlows = LinkMethod::flows;
using S = LinkScope;

}  // namespace

const std::vector<LinkTest>& link_tests() {
  static const std::vector<LinkTest> rows{
      {"host_to_device_memcpy_ce", "host", "pinned host memory to each device, copy engine", kFlows, false,
       [](const S& s) { return host_alone(s, true, kEngine); }},
      {"device_to_host_memcpy_ce", "host", "each device to pinned host memory, copy engine", kFlows, false,
       [](const S& s) { return host_alone(s, false, kEngine); }},
      {"host_to_device_bidirectional_memcpy_ce", "host", "host to device, while copies go back", kFlows, false,
       [](const S& s) { return host_disturbed(s, true, kEngine, true, false); }},
      {"device_to_host_bidirectional_memcpy_ce", "host", "device to host, while copies come in", kFlows, false,
       [](const S& s) { return host_disturbed(s, false, kEngine, true, false); }},
      {"host_to_all_memcpy_ce", "host", "host to one device, while it feeds the others too", kFlows, false,
       [](const S& s) { return host_disturbed(s, true, kEngine, false, true); }},
      {"all_to_host_memcpy_ce", "host", "one device to host, while the others send too", kFlows, false,
       [](const S& s) { return host_disturbed(s, false, kEngine, false, true); }},
      {"host_to_all_bidirectional_memcpy_ce", "host", "host to one device, all others busy in both directions", kFlows,
       false, [](const S& s) { return host_disturbed(s, true, kEngine, true, true); }},
      {"all_to_host_bidirectional_memcpy_ce", "host", "one device to host, all others busy in both directions", kFlows,
       false, [](const S& s) { return host_disturbed(s, false, kEngine, true, true); }},
      {"host_to_device_memcpy_sm", "host", "pinned host memory to each device, kernel", kFlows, false,
       [](const S& s) { return host_alone(s, true, kKernel); }},
      {"device_to_host_memcpy_sm", "host", "each device to pinned host memory, kernel", kFlows, false,
       [](const S& s) { return host_alone(s, false, kKernel); }},
      {"host_to_device_pageable", "host", "pageable host memory to each device", kFlows, false,
       [](const S& s) { return host_alone(s, true, kEngine, HostMemory::pageable); }},
      {"device_to_host_pageable", "host", "each device to pageable host memory", kFlows, false,
       [](const S& s) { return host_alone(s, false, kEngine, HostMemory::pageable); }},
      {"host_to_device_by_node", "host", "memory of each NUMA node to each device", kFlows, false,
       [](const S& s) { return host_by_node(s, true); }},
      {"device_to_host_by_node", "host", "each device to memory of each NUMA node", kFlows, false,
       [](const S& s) { return host_by_node(s, false); }},
      {"device_to_device_memcpy_read_ce", "pairs", "each ordered pair, the destination's copy engine", kFlows, false,
       [](const S& s) { return pairs(s, kEngine, kRead); }},
      {"device_to_device_memcpy_write_ce", "pairs", "each ordered pair, the source's copy engine", kFlows, false,
       [](const S& s) { return pairs(s, kEngine, kWrite); }},
      {"device_to_device_bidirectional_memcpy_read_ce", "pairs", "both directions at once, added", kFlows, false,
       [](const S& s) { return both_directions(s, kEngine, kRead); }},
      {"device_to_device_bidirectional_memcpy_write_ce", "pairs", "both directions at once, added", kFlows, false,
       [](const S& s) { return both_directions(s, kEngine, kWrite); }},
      {"device_to_device_memcpy_read_sm", "pairs", "each ordered pair, a kernel of the destination", kFlows, true,
       [](const S& s) { return pairs(s, kKernel, kRead); }},
      {"device_to_device_memcpy_write_sm", "pairs", "each ordered pair, a kernel of the source", kFlows, true,
       [](const S& s) { return pairs(s, kKernel, kWrite); }},
      {"device_to_device_bidirectional_memcpy_read_sm", "pairs", "both directions at once, added", kFlows, true,
       [](const S& s) { return both_directions(s, kKernel, kRead); }},
      {"device_to_device_bidirectional_memcpy_write_sm", "pairs", "both directions at once, added", kFlows, true,
       [](const S& s) { return both_directions(s, kKernel, kWrite); }},
      {"device_to_device_staged", "pairs", "each ordered pair through pinned host memory", LinkMethod::staged, false,
       [](const S& s) { return pairs(s, kEngine, kRead); }},
      {"device_to_device_sweep", "sweep", "each ordered pair over sizes, copy engine: alpha and beta",
       LinkMethod::sweep, false, [](const S& s) { return pairs(s, kEngine, kWrite); }},
      {"device_to_device_sweep_sm", "sweep", "each ordered pair over sizes, kernel: alpha and beta", LinkMethod::sweep,
       true, [](const S& s) { return pairs(s, kKernel, kWrite); }},
      {"device_to_device_latency_sm", "latency", "a dependent load from each peer's memory", LinkMethod::latency, true,
       [](const S& s) { return pairs(s, kKernel, kRead); }},
      {"host_device_latency_sm", "latency", "a dependent load from host memory", LinkMethod::latency, false,
       host_cells},
      {"device_local_latency_sm", "latency", "a dependent load from the device's own memory", LinkMethod::latency,
       false, [](const S& s) { return local_copies(s, kKernel); }},
      {"all_to_one_write_ce", "patterns", "all peers write to one device", kFlows, false,
       [](const S& s) { return one_and_all(s, true, kEngine, kWrite); }},
      {"all_to_one_read_ce", "patterns", "all peers read from one device", kFlows, false,
       [](const S& s) { return one_and_all(s, false, kEngine, kRead); }},
      {"one_to_all_write_ce", "patterns", "one device writes to all peers", kFlows, false,
       [](const S& s) { return one_and_all(s, false, kEngine, kWrite); }},
      {"one_to_all_read_ce", "patterns", "one device reads from all peers", kFlows, false,
       [](const S& s) { return one_and_all(s, true, kEngine, kRead); }},
      {"all_to_one_write_sm", "patterns", "all peers write to one device, kernels", kFlows, true,
       [](const S& s) { return one_and_all(s, true, kKernel, kWrite); }},
      {"all_to_one_read_sm", "patterns", "all peers read from one device, kernels", kFlows, true,
       [](const S& s) { return one_and_all(s, false, kKernel, kRead); }},
      {"one_to_all_write_sm", "patterns", "one device writes to all peers, kernels", kFlows, true,
       [](const S& s) { return one_and_all(s, false, kKernel, kWrite); }},
      {"one_to_all_read_sm", "patterns", "one device reads from all peers, kernels", kFlows, true,
       [](const S& s) { return one_and_all(s, true, kKernel, kRead); }},
      {"all_to_all", "patterns", "every device to every other at once", kFlows, false, all_to_all},
      {"ring", "patterns", "every device to the next at once", kFlows, false, ring},
      {"bisection", "patterns", "one half of the devices with the other, in both directions", kFlows, false, bisection},
      {"device_local_copy", "memory", "within each device, copy engine", kFlows, false,
       [](const S& s) { return local_copies(s, kEngine); }},
      {"locality", "memory", "one kernel reading local, peer and host memory", kFlows, true, localities},
      {"memory_under_traffic", "memory", "a device's memory alone and while transfers run", kFlows, false,
       memory_and_traffic},
      {"integrity", "integrity", "every pair and method under every pattern", LinkMethod::integrity, false, nullptr},
  };
  return rows;
}

std::vector<const LinkTest*> find_link_tests(const std::vector<std::string>& names) {
  static const std::set<std::string_view> defaults{"host_to_device_memcpy_ce",
                                                   "device_to_host_memcpy_ce",
                                                   "device_to_device_memcpy_read_ce",
                                                   "device_to_device_memcpy_write_ce",
                                                   "device_to_device_bidirectional_memcpy_write_ce",
                                                   "device_to_device_memcpy_read_sm",
                                                   "device_to_device_memcpy_write_sm",
                                                   "device_to_device_staged",
                                                   "device_to_device_latency_sm",
                                                   "host_device_latency_sm",
                                                   "all_to_all",
                                                   "device_local_copy",
                                                   "integrity"};
  std::set<std::string_view> known{"default", "all"}, wanted;
  for (const LinkTest& row : link_tests()) known.insert(row.name), known.insert(row.group);
  for (const std::string& name : names) {
    if (!known.contains(name)) {
      std::vector<std::string> choices(known.begin(), known.end());
      throw Error(Cause::usage, fmt::format("unknown link test '{}'", name),
                  nearest_name(name, choices).empty() ? "`links list`"
                                                      : nearest_name(name, choices) + "? or one of `links list`");
    }
    wanted.insert(*known.find(name));
  }
  std::vector<const LinkTest*> rows;
  for (const LinkTest& row : link_tests())
    if (wanted.contains("all") || wanted.contains(row.name) || wanted.contains(row.group) ||
        (wanted.contains("default") && defaults.contains(row.name)))
      rows.push_back(&row);
  return rows;
}

}  // namespace amdahl
