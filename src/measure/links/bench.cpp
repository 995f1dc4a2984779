#include "measure/links/bench.h"

#include <fmt/format.h>

#include <algorithm>

#include "stats/percentile.h"

namespace amdahl {

/// A flow with its memory, stream and events.
struct LinkBench::Lane {
  void* destination = nullptr;
  void* source = nullptr;
  size_t bytes = 0;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Event> started, ended;    // time stamps
  std::unique_ptr<Event> released, passed;  // for ordering between streams
};

namespace {

double gbps_of(double bytes, double us) { return us > 0 ? bytes / us * 1e-3 : 0; }

/// The device that writes and checks the contents of a place: the device itself, or for host memory the flow's issuer.
int owner_of(const Place& place, const Flow& flow) { return place.is_host() ? flow.issuer : place.device; }

bool is_pageable(const Place& place) { return place.is_host() && place.host == HostMemory::pageable; }

}  // namespace

LinkBench::LinkBench(std::vector<LinkDevice> devices, std::vector<DeviceSpec> specs, const MachineSpec& machine,
                     bool use_peer_access)
    : devices_(std::move(devices)), specs_(std::move(specs)), nodes_(machine.numa_nodes) {
  const auto count = devices_.size();
  unreachable_.assign(count, std::vector<std::string>(count));
  for (size_t from = 0; from < count; ++from)
    for (size_t to = 0; to < count; ++to) {
      if (from == to) continue;
      const Device& one = *devices_[from].device;
      std::string& why = unreachable_[from][to];
      if (one.backend() == BackendKind::cpu) continue;  // threads of one process share memory
      if (!use_peer_access) why = "peer access is left out";
      if (why.empty()) why = devices_[from].device->reach(*devices_[to].device).reason;
    }
}

std::string LinkBench::label(int device) const {
  return fmt::format("{} {}", spec(device).kind == "cuda" ? "gpu" : "cpu", spec(device).index);
}

const std::string& LinkBench::unreachable(int from, int to) const {
  return unreachable_[static_cast<size_t>(from)][static_cast<size_t>(to)];
}

std::vector<int> LinkBench::numa_nodes() const {
  std::vector<int> nodes;
  for (const NumaNode& node : nodes_)
    if (!node.cores.empty()) nodes.push_back(node.index);
  if (nodes.empty()) nodes.push_back(-1);
  return nodes;
}

std::string LinkBench::cores_of(int numa_node) const {
  for (const NumaNode& node : nodes_)
    if (node.index == numa_node) return node.cores;
  return {};
}

void* LinkBench::memory(const Place& place, int slot, size_t bytes, int near_device) {
  std::unique_ptr<Buffer>& buffer = buffers_[{place, slot}];
  if (!buffer || buffer->bytes() < bytes) {
    buffer.reset();
    buffer = place.is_host() ? transfer(near_device).allocate_host(bytes, place.host, cores_of(place.numa_node))
                             : device(place.device).allocate(bytes);
  }
  return buffer->data();
}

void LinkBench::fill(const LinkCell& cell, std::vector<Lane>& lanes, const BenchSettings& settings) {
  int slot = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const Flow& flow = cell.flows[i];
    Lane& lane = lanes[i];
    lane.bytes = settings.bytes * static_cast<size_t>(flow.size_factor);
    lane.source = memory(flow.source, slot++, lane.bytes, flow.issuer);
    lane.destination = memory(flow.destination, slot++, lane.bytes, flow.issuer);
    Device& issuer = device(flow.issuer);
    lane.stream = issuer.make_stream(fmt::format("flow {}", i));
    lane.started = issuer.make_event(), lane.ended = issuer.make_event();
    lane.released = issuer.make_event(), lane.passed = issuer.make_event();
    const auto write = [&](const Place& place, void* at, bool complement) {
      const int owner = owner_of(place, flow);
      if (is_pageable(place)) {  // kernels cannot access it: go through pinned memory
        void* pinned = memory(Place::on_host(HostMemory::pinned, -1), slot++, lane.bytes, owner);
        transfer(owner).write_pattern(*lane.stream, pinned, lane.bytes, Pattern::random, settings.seed + i, complement);
        transfer(owner).copy(*lane.stream, at, pinned, lane.bytes, Mover::engine, 1);
        lane.stream->synchronize(Deadline::after_seconds(settings.timeout_seconds));
        return;
      }
      const std::unique_ptr<Stream> stream = device(owner).make_stream("fill");
      transfer(owner).write_pattern(*stream, at, lane.bytes, Pattern::random, settings.seed + i, complement);
      stream->synchronize(Deadline::after_seconds(settings.timeout_seconds));
    };
    write(flow.source, lane.source, false);
    write(flow.destination, lane.destination, true);
  }
}

void LinkBench::sample(const LinkCell& cell, std::vector<Lane>& lanes, const BenchSettings& settings,
                       CellResult& result) {
  const auto each = [&](const auto& work) {
    for (size_t i = 0; i < lanes.size(); ++i) work(cell.flows[i], lanes[i]);
  };
  const auto copy = [&](const Flow& flow, Lane& lane, int times) {
    transfer(flow.issuer).copy(*lane.stream, lane.destination, lane.source, lane.bytes, flow.mover, times);
  };
  // The driver's copies through host memory block the host, so a gate would never open (deadlock).
  const bool gated = std::none_of(cell.flows.begin(), cell.flows.end(), [&](const Flow& flow) {
    const bool between = !flow.source.is_host() && !flow.destination.is_host() && flow.source != flow.destination;
    return is_pageable(flow.source) || is_pageable(flow.destination) ||
           (between && !reaches(flow.source.device, flow.destination.device));
  });
  const std::unique_ptr<Gate> gate =
      gated ? transfer(cell.flows[0].issuer).make_gate(settings.timeout_seconds) : nullptr;
  each([&](const Flow& flow, Lane& lane) {
    if (gate) gate->hold(*lane.stream);
    copy(flow, lane, settings.warmup);
  });
  lanes[0].stream->record(*lanes[0].released);
  each([&](const Flow&, Lane& lane) {
    lane.stream->wait(*lanes[0].released);
    lane.stream->stamp(*lane.started);
  });
  each([&](const Flow& flow, Lane& lane) {
    copy(flow, lane, settings.times);
    if (cell.rate != Rate::total) lane.stream->stamp(*lane.ended);
    lane.stream->record(*lane.passed);
  });
  if (cell.rate == Rate::total) {
    for (size_t i = 1; i < lanes.size(); ++i) lanes[0].stream->wait(*lanes[i].passed);
    each([](const Flow&, Lane& lane) { lane.stream->stamp(*lane.ended); });
  }
  if (gate) gate->open();
  each([&](const Flow&, Lane& lane) { lane.stream->synchronize(Deadline::after_seconds(settings.timeout_seconds)); });
  double sum = 0, bytes = 0;
  for (size_t i = 0; i < lanes.size(); ++i) {
    const double moved = static_cast<double>(lanes[i].bytes) * settings.times;
    const double us = device(cell.flows[i].issuer).elapsed_us(*lanes[i].started, *lanes[i].ended);
    result.flow_gbps.push_back(gbps_of(moved, us));
    sum += result.flow_gbps.back(), bytes += moved;
  }
  const size_t first = result.flow_gbps.size() - lanes.size();
  const double total_us = device(cell.flows[0].issuer).elapsed_us(*lanes[0].started, *lanes[0].ended);
  result.gbps.push_back(cell.rate == Rate::sum     ? sum
                        : cell.rate == Rate::total ? gbps_of(bytes, total_us)
                                                   : result.flow_gbps[first]);
}

void LinkBench::verify(const LinkCell& cell, std::vector<Lane>& lanes, const BenchSettings& settings,
                       CellResult& result) {
  for (size_t i = 0; i < lanes.size(); ++i) {
    const Flow& flow = cell.flows[i];
    const int owner = owner_of(flow.destination, flow);
    const void* data = lanes[i].destination;
    const std::unique_ptr<Stream> stream = device(owner).make_stream("check");
    if (is_pageable(flow.destination)) {
      void* pinned = memory(Place::on_host(HostMemory::pinned, -1), -1, lanes[i].bytes, owner);
      transfer(owner).copy(*stream, pinned, data, lanes[i].bytes, Mover::engine, 1);
      data = pinned;
    }
    const PatternFault fault =
        transfer(owner).check_pattern(*stream, data, lanes[i].bytes, Pattern::random, settings.seed + i,
                                      Deadline::after_seconds(settings.timeout_seconds));
    if (!fault.found()) continue;
    if (result.faulty_flow < 0) result.faulty_flow = static_cast<int>(i), result.fault = fault;
  }
}

CellResult LinkBench::run(const LinkCell& cell, const BenchSettings& settings) {
  CellResult result;
  std::vector<Lane> lanes(cell.flows.size());
  fill(cell, lanes, settings);
  for (int i = 0; i < settings.samples; ++i) sample(cell, lanes, settings, result);
  std::vector<double> flows;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    std::vector<double> own;
    for (size_t i = lane; i < result.flow_gbps.size(); i += lanes.size()) own.push_back(result.flow_gbps[i]);
    flows.push_back(percentile(own, 50));
  }
  result.flow_gbps = std::move(flows);
  if (settings.check) verify(cell, lanes, settings, result);
  return result;
}

CellResult LinkBench::run_staged(int source, int destination, const BenchSettings& settings) {
  const Flow flow{destination, Place::on(source), Place::on(destination), Mover::engine, 1};
  const LinkCell cell{"", "", {flow}, Rate::first};
  CellResult result;
  // Outlives the streams, which may still copy through it when an error unwinds.
  StagedCopy staged(end(source), end(destination), cores_of(spec(source).numa_node));
  std::vector<Lane> lanes(1);
  fill(cell, lanes, settings);
  const std::unique_ptr<Stream> from = device(source).make_stream("staging");
  const auto copies = [&](int times) {
    for (int i = 0; i < times; ++i)
      staged.copy(*from, *lanes[0].stream, lanes[0].destination, lanes[0].source, lanes[0].bytes);
  };
  for (int i = 0; i < settings.samples; ++i) {
    copies(1);
    lanes[0].stream->stamp(*lanes[0].started);
    lanes[0].stream->record(*lanes[0].released);
    from->wait(*lanes[0].released);
    copies(settings.times);
    lanes[0].stream->stamp(*lanes[0].ended);
    lanes[0].stream->synchronize(Deadline::after_seconds(settings.timeout_seconds));
    const double us = device(destination).elapsed_us(*lanes[0].started, *lanes[0].ended);
    result.gbps.push_back(gbps_of(static_cast<double>(lanes[0].bytes) * settings.times, us));
  }
  from->synchronize(Deadline::after_seconds(settings.timeout_seconds));
  if (settings.check) verify(cell, lanes, settings, result);
  return result;
}

std::vector<double> LinkBench::latency_us(int index, const Place& place, int accesses, const BenchSettings& settings) {
  const size_t chain_bytes = transfer(index).chain_bytes();
  const Deadline deadline = Deadline::after_seconds(settings.timeout_seconds);
  void* chain = memory(place, 0, chain_bytes, index);
  const std::vector<uint64_t> words = make_chain(chain, chain_bytes);
  const int owner = place.is_host() ? index : place.device;
  {
    const std::unique_ptr<Stream> fill = device(owner).make_stream("fill");
    if (place.is_host())
      std::copy(words.begin(), words.end(), static_cast<uint64_t*>(chain));
    else
      device(owner).copy_in(*fill, chain, words.data(), chain_bytes);
    fill->synchronize(deadline);
  }
  const std::unique_ptr<Stream> stream = device(index).make_stream("chase");
  std::vector<double> samples;
  for (int i = 0; i < settings.samples; ++i)
    samples.push_back(transfer(index).chase_us(*stream, chain, chain_bytes, accesses,
                                               Deadline::after_seconds(settings.timeout_seconds)));
  return samples;
}

}  // namespace amdahl
