// Fleet: the devices that a measurement can use, as ranks, driven by threads of this process or by processes that a
// launcher started. The composition root (src/lab) builds one; measurements use only this interface.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "parallel/rank_context.h"

namespace amdahl {

class Fleet {
 public:
  virtual ~Fleet() = default;

  virtual const std::string& device_kind() const = 0;  // "cpu-virtual" or "cuda"
  virtual int num_devices() const = 0;                 // over all processes
  virtual const std::vector<DeviceSpec>& devices() const = 0;
  /// True in the process that holds rank 0, which prints and writes files.
  virtual bool is_root() const = 0;

  /// Runs fn on ranks 0..num_devices-1, each with its own device and a communicator over them, and returns when this
  /// process's ranks are done. Collective over processes; the first failing rank's Error is rethrown with its rank.
  virtual void run(int num_devices, const std::function<void(RankContext&)>& fn) = 0;

  /// Makes this process's ranks stop with Error{interrupted} soon after `stopped` returns true, whatever they wait for
  /// on their device; the other ranks then end with the same cause. `stopped` is called from any thread.
  virtual void end_runs_when(const std::function<bool()>& stopped) = 0;

  /// Stores the ranks' flight recorders as files in the root's run folder on hosts that have that folder; elsewhere
  /// they stay in memory. `run_dir`: the root's, empty for none. Collective; call once, while no rank is running.
  /// Returns the root's folder.
  virtual std::string record_flights(const std::string& run_dir) = 0;

  /// The root's value on every process. Collective.
  virtual std::string agree(const std::string& root_value) = 0;
};

inline BackendKind backend_of(const Fleet& fleet) {
  return fleet.device_kind() == "cuda" ? BackendKind::cuda : BackendKind::cpu;
}

/// How many of the first `num_devices` devices of this process share a memory: those of a CPU.
inline int devices_sharing_memory(const Fleet& fleet, int num_devices) {
  return fleet.device_kind() == "cuda" ? 1 : std::min(num_devices, static_cast<int>(fleet.devices().size()));
}

}  // namespace amdahl
