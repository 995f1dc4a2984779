// Transfers between the memories of one machine, timed and verified.
//
// What a test measures is data: cells of concurrent flows (src/measure/links/tests.cpp). One host thread drives all
// devices. Each flow has a stream of its own on the device that issues it; all are held at a gate until everything is
// enqueued, warm up, and then start together.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "transfer/staged_copy.h"
#include "transfer/transfer.h"

namespace amdahl {

struct LinkDevice {
  std::unique_ptr<Device> device;
  std::unique_ptr<Transfer> transfer;
};

/// A memory: a device's (its position in the bench), or the host's.
struct Place {
  int device = -1;
  HostMemory host = HostMemory::pinned;
  int numa_node = -1;  // of host memory; -1: wherever the program runs

  static Place on(int device) { return {device, HostMemory::pinned, -1}; }
  static Place on_host(HostMemory kind, int numa_node) { return {-1, kind, numa_node}; }
  bool is_host() const { return device < 0; }
  auto operator<=>(const Place&) const = default;
};

struct Flow {
  int issuer = 0;  // device whose stream and mover it is
  Place source, destination;
  Mover mover = Mover::engine;
  int size_factor = 1;  // of the cell's size: a disturbance is made larger, so that it outlasts what is measured
};

/// Which rate of several flows counts.
enum class Rate {
  first,  // of flow 0, beside the others
  sum,    // each flow's own, added
  total,  // all bytes over the time from the start to the last end
};

struct LinkCell {
  std::string row, column;  // labels
  std::vector<Flow> flows;
  Rate rate = Rate::first;
};

struct BenchSettings {
  size_t bytes = size_t{512} << 20;  // a flow's buffer
  int times = 16, warmup = 4;        // copies of a sample, and before it
  int samples = 3;
  bool check = true;
  uint64_t seed = 42;
  double timeout_seconds = 60;
};

struct CellResult {
  std::vector<double> gbps;       // one a sample; empty when nothing could be measured
  std::vector<double> flow_gbps;  // medians of each flow
  PatternFault fault;             // of all destinations together, when they were checked
  int faulty_flow = -1;           // the first
};

class LinkBench {
 public:
  /// `specs`: what the machine knows of each device. Lets every device reach every other that it can, unless
  /// `use_peer_access` is false.
  LinkBench(std::vector<LinkDevice> devices, std::vector<DeviceSpec> specs, const MachineSpec& machine,
            bool use_peer_access);

  int num_devices() const { return static_cast<int>(devices_.size()); }
  const DeviceSpec& spec(int device) const { return specs_[static_cast<size_t>(device)]; }
  /// "gpu 0", "cpu 0".
  std::string label(int device) const;
  /// Empty when kernels of `from` reach the memory of `to`, else why not.
  const std::string& unreachable(int from, int to) const;
  bool reaches(int from, int to) const { return unreachable(from, to).empty(); }
  /// NUMA nodes of the host, -1 alone when they are unknown.
  std::vector<int> numa_nodes() const;

  CellResult run(const LinkCell& cell, const BenchSettings& settings);

  /// From `source` to `destination` through pinned host memory in chunks.
  CellResult run_staged(int source, int destination, const BenchSettings& settings);

  /// Samples of the mean time of a dependent load by `device` from `memory`, us.
  std::vector<double> latency_us(int device, const Place& memory, int accesses, const BenchSettings& settings);

  /// Buffers are kept from cell to cell; this lets go of them.
  void release() { buffers_.clear(); }

  Device& device(int index) { return *devices_[static_cast<size_t>(index)].device; }
  Transfer& transfer(int index) { return *devices_[static_cast<size_t>(index)].transfer; }
  StagedCopy::End end(int index) { return {&device(index), &transfer(index)}; }
  std::string cores_of(int numa_node) const;
  /// Memory at a place, one piece a slot, at least `bytes`, valid until release() or a larger call for the same slot.
  void* memory(const Place& place, int slot, size_t bytes, int near_device);

 private:
  struct Lane;
  void fill(const LinkCell& cell, std::vector<Lane>& lanes, const BenchSettings& settings);
  void sample(const LinkCell& cell, std::vector<Lane>& lanes, const BenchSettings& settings, CellResult& result);
  void verify(const LinkCell& cell, std::vector<Lane>& lanes, const BenchSettings& settings, CellResult& result);

  std::vector<LinkDevice> devices_;
  std::vector<DeviceSpec> specs_;
  std::vector<NumaNode> nodes_;
  std::vector<std::vector<std::string>> unreachable_;
  std::map<std::pair<Place, int>, std::unique_ptr<Buffer>> buffers_;
};

}  // namespace amdahl
