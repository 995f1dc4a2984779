// Symmetric memory: a region of the same size of every rank of a team, which all of them reach.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "device/device.h"
#include "symmetric/team.h"

namespace amdahl {

/// One rank's access to the regions of all. Copies share them: a region lives until the last rank that can reach it has
/// let go of it, so it outlives every wait and every write.
struct SymmetricMemory {
  Team team;
  size_t bytes = 0;                           // of each region
  std::vector<char*> base;                    // by rank in the team: addresses that this rank's device reaches
  std::vector<std::shared_ptr<void>> owners;  // of what is behind them
  double timeout_seconds = 60;                // of one wait for another rank
  bool emulated = true;                       // no link between devices: CPU, or ranks share a GPU

  template <class T>
  T* own() const {
    return reinterpret_cast<T*>(base[static_cast<size_t>(team.rank)]);
  }
  TeamView view(WaitReport* report) const;
};

/// What a region has at its front, before anything else.
inline constexpr size_t kTeamFlagBytes = sizeof(TeamFlags);

/// Whether every rank's device reaches the memory of all others' directly, with the reason where not: ranks are
/// processes, too many, or a device cannot. All ranks get the same answer. Collective, blocking on the host.
Feasibility reach_team(Device& device, Communicator& communicator, Deadline deadline);

/// Threads of one process: makes buffers of the ranks symmetric memory, which each rank hands in as it is (not zeroed).
/// The ranks' devices reach each other. Collective, blocking on the host; Error{collective_mismatch} for buffers of
/// different sizes.
SymmetricMemory share_buffer(Device& device, Communicator& communicator, const std::shared_ptr<Buffer>& own,
                             double timeout_seconds);
/// The same by one thread for all ranks: the memory of rank `rank`, from each rank's device and buffer.
SymmetricMemory memory_of_buffers(const std::vector<Device*>& devices,
                                  const std::vector<std::shared_ptr<Buffer>>& buffers, int rank,
                                  double timeout_seconds);
/// Zeroed memory of this device, for share_buffer.
std::shared_ptr<Buffer> allocate_zeroed(Device& device, size_t bytes, Deadline deadline);

/// Processes of one host: the segment `name` ("/amdahl-...", shm_open(3)) has every rank's region, zeroed. One rank
/// passes `create`, before the others open it; `unlink_segment` removes the name once all have. Error{out_of_memory}
/// where /dev/shm has no room, Error{environment_missing} where there is no such segment.
SymmetricMemory map_segment(const std::string& name, const Team& team, size_t bytes, double timeout_seconds,
                            bool create);
void unlink_segment(const std::string& name) noexcept;

/// Zeroed symmetric memory for the ranks of a communicator: buffers of the devices between threads, a segment of POSIX
/// shared memory between processes on CPU devices. Collective, blocking on the host. Error{environment_missing} where
/// the ranks do not reach each other's memory.
SymmetricMemory make_symmetric_memory(Device& device, Communicator& communicator, size_t bytes, double timeout_seconds);

}  // namespace amdahl
