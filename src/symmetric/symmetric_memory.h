// Symmetric memory: one region of equal size per rank of a team, accessible by all ranks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "symmetric/team.h"

namespace amdahl {

/// One rank's access to the regions of all ranks. Copies share ownership: a region lives until the last rank with
/// access has released it, so it outlives every wait and write.
struct SymmetricMemory {
  Team team;
  size_t bytes = 0;                           // of each region
  std::vector<char*> base;                    // by rank in the team: addresses valid on this rank's device
  std::vector<std::shared_ptr<void>> owners;  // owners of the regions
  double timeout_seconds = 60;                // of one wait for another rank
  bool emulated = true;                       // no link between devices: CPU, or ranks share a GPU

  template <class T>
  T* own() const {
    return reinterpret_cast<T*>(base[static_cast<size_t>(team.rank)]);
  }
  TeamView view(WaitReport* report) const;
};

/// Size of the TeamFlags at the start of a region.
inline constexpr size_t kTeamFlagBytes = sizeof(TeamFlags);

/// Whether every rank's device can access the memory of all others directly, and the reason when not: ranks are
/// separate processes, too many, or a device has no peer access. All ranks get the same answer. Collective, blocks the
/// host.
Feasibility reach_team(Device& device, Communicator& communicator, Deadline deadline);

/// For threads of one process: makes symmetric memory from one buffer per rank, without zeroing them. The devices must
/// have access to each other. Collective, blocks the host. Error{collective_mismatch} for buffers of different sizes.
SymmetricMemory share_buffer(Device& device, Communicator& communicator, const std::shared_ptr<Buffer>& own,
                             double timeout_seconds);
/// The same without communication, for a thread that has the devices and buffers of all ranks: memory of rank `rank`.
SymmetricMemory memory_of_buffers(const std::vector<Device*>& devices,
                                  const std::vector<std::shared_ptr<Buffer>>& buffers, int rank,
                                  double timeout_seconds);
/// Zeroed memory of this device, for share_buffer.
std::shared_ptr<Buffer> allocate_zeroed(Device& device, size_t bytes, Deadline deadline);

/// For processes of one host: maps the segment `name` ("/amdahl-...", shm_open(3)), which contains every rank's region,
/// zeroed. One rank passes `create` and must return before the others open the segment; `unlink_segment` removes the
/// name once all have opened it. Error{out_of_memory} when /dev/shm is full, Error{environment_missing} when the
/// segment does not exist.
SymmetricMemory map_segment(const std::string& name, const Team& team, size_t bytes, double timeout_seconds,
                            bool create);
void unlink_segment(const std::string& name) noexcept;

/// For processes of one host with a GPU each: zeroed memory that every rank opens by CUDA IPC. Collective, blocks the
/// host. Error{environment_missing} on every rank when two share a GPU, a GPU does not reach another one, or in a build
/// without CUDA.
SymmetricMemory make_cuda_ipc_memory(Device& device, Communicator& communicator, size_t bytes, double timeout_seconds);

/// Zeroed symmetric memory for the ranks of a communicator: device buffers between threads, a POSIX shared memory
/// segment between processes with CPU devices, CUDA IPC between processes with GPUs. Collective, blocks the host.
/// Error{environment_missing} when the ranks cannot access each other's memory.
SymmetricMemory make_symmetric_memory(Device& device, Communicator& communicator, size_t bytes, double timeout_seconds);

}  // namespace amdahl
