// Transfers between the memories of one machine, timed and verified.
//
// Tests are data: cells of concurrent flows (src/measure/links/tests.cpp). One host thread drives all devices. Each
// flow has a stream of its own on the device that issues it. All flows are held at a gate until everything is enqueued,
// run their warm-up, and then start together.
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
  int issuer = 0;  // device whose stream and mover it uses
  Place source, destination;
  Mover mover = Mover::engine;
  int size_factor = 1;  // multiplies the cell's size: a disturbing flow is larger, so that it outlasts the measured one
};

/// Which rate a cell with several flows reports.
enum class Rate {
  first,  // rate of flow 0 while the others run
  sum,    // sum of each flow's own rate
  total,  // all bytes over the time from the start to the last end
};

struct LinkCell {
  std::string row, column;  // labels
  std::vector<Flow> flows;
  Rate rate = Rate::first;
};

struct BenchSettings {
  size_t bytes = size_t{512} << 20;  // a flow's buffer
  int times = 16, warmup = 4;        // copies per sample, and untimed ones before it
  int samples = 3;
  bool check = true;
  uint64_t seed = 42;
  double timeout_seconds = 60;
};

struct CellResult {
  std::vector<double> gbps;       // one per sample; empty when nothing could be measured
  std::vector<double> flow_gbps;  // medians of each flow
  PatternFault fault;             // over all destinations, if checked
  int faulty_flow = -1;           // the first one with a fault; -1: none
};

class LinkBench {
 public:
  /// `specs`: one per device. Enables peer access between all devices that support it, unless `use_peer_access` is
  /// false.
  LinkBench(std::vector<LinkDevice> devices, std::vector<DeviceSpec> specs, const MachineSpec& machine,
            bool use_peer_access);

  int num_devices() const { return static_cast<int>(devices_.size()); }
  const DeviceSpec& spec(int device) const { return specs_[static_cast<size_t>(device)]; }
  /// "gpu 0", "cpu 0".
  std::string label(int device) const;
  /// Empty when kernels of `from` can access the memory of `to`, else the reason why not.
  const std::string& unreachable(int from, int to) const;
  bool reaches(int from, int to) const { return unreachable(from, to).empty(); }
  /// NUMA nodes of the host; {-1} when they are unknown.
  std::vector<int> numa_nodes() const;

  CellResult run(const LinkCell& cell, const BenchSettings& settings);

  /// From `source` to `destination` through pinned host memory in chunks.
  CellResult run_staged(int source, int destination, const BenchSettings& settings);

  /// Samples of the mean time in us of a dependent load by `device` from `memory`.
  std::vector<double> latency_us(int device, const Place& memory, int accesses, const BenchSettings& settings);

  /// Frees the buffers, which are otherwise kept from cell to cell.
  void release() { buffers_.clear(); }

  Device& device(int index) { return *devices_[static_cast<size_t>(index)].device; }
  Transfer& transfer(int index) { return *devices_[static_cast<size_t>(index)].transfer; }
  StagedCopy::End end(int index) { return {&device(index), &transfer(index)}; }
  std::string cores_of(int numa_node) const;
  /// Memory of at least `bytes` at a place, one buffer per slot; valid until release() or a call for the same slot with
  /// a larger size.
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
