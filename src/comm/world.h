// World: who the ranks are and how they find each other. Ranks are threads of this process, or processes that a
// launcher (mpirun, torchrun, srun) started, one rank each.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace amdahl {

/// What the launcher's variables say. `family` is "plain", "amdahl", "torchrun", "openmpi", "pmi" or "slurm".
struct LaunchContext {
  std::string family = "plain";
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 0;
  bool multi_process() const { return world_size > 1; }
};

/// First family that matches wins (ecosystem.md section 2 order: AMDAHL, torchrun, Open MPI, PMI/PMIx, Slurm). Throws
/// Error{launcher_mismatch} when two families disagree on rank or world size, or one is half set.
/// `environment` is the process environment, passed in by the CLI: the library reads no variables itself.
LaunchContext detect_launch(const std::map<std::string, std::string>& environment);

/// Communicator of a world of one rank, on any device.
std::unique_ptr<Communicator> make_lone_communicator(Device& device);

/// Communicators of `world_size` ranks that are threads of this process, in rank order. CPU devices only.
std::vector<std::unique_ptr<Communicator>> make_inproc_communicators(int world_size, double timeout_seconds);

/// A key-value store that the ranks of a multi-process world share: TCP, served by rank 0 in a background thread.
/// Also notices a peer whose connection drops (died) or falls silent for the timeout (hung) and tells the others who it
/// was. All calls from any thread. Must outlive the communicators made with it; destroying it without leave() is a
/// death.
class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;
  virtual const LaunchContext& launch() const = 0;
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Blocks until the key exists; Error{rank_hung} at the deadline, the first failure as soon as there is one. `from`:
  /// the rank that sets it, -1 when that is not known; once it has left without doing so, Error{rank_died} here and to
  /// everybody.
  virtual std::string get(const std::string& key, int from, Deadline deadline) = 0;
  /// Every member's `message`, in the group's order, once all have called with this `name` (used once) and the same
  /// group. At the deadline Error{rank_hung} names the ranks that did not come, here and to everybody; one that has
  /// left and so will not come is Error{rank_died} at once.
  virtual std::vector<std::string> exchange(const std::string& name, const RankGroup& group, const std::string& message,
                                            Deadline deadline) = 0;

  /// First failure reported or seen anywhere, if any; its rank() is the rank that failed, not the one that noticed.
  virtual std::unique_ptr<Error> failure() = 0;
  /// The same, waiting for one until the deadline.
  virtual std::unique_ptr<Error> wait_failure(Deadline deadline) = 0;
  /// Tells every rank, and returns when the report is out (half a second at most). Later reports are dropped.
  virtual void report_failure(const Error& error) noexcept = 0;
  /// Reports Error{interrupted} of this rank soon after `stopped` says so: a rank that waits for another's decision
  /// must be able to end everybody's work, too. Polled on the watcher thread.
  virtual void report_when(std::function<bool()> stopped) = 0;
  /// Says that this rank leaves on purpose, so that its closed connection is no death. Put a barrier before it when
  /// others may still be in a collective with this rank.
  virtual void leave() noexcept = 0;
  /// The lowest member (rank in the job) that has left, as far as this one knows; -1: none.
  virtual int left_rank(const RankGroup& group) = 0;

  /// Called (once or twice) on the store's watcher thread as soon as the first failure is known (at once if it already
  /// is). Communicators register their abort here. A listener must not call the store.
  virtual size_t add_listener(std::function<void(const Error&)> listener) = 0;
  /// Returns after a running call of that listener has ended.
  virtual void remove_listener(size_t id) noexcept = 0;
  /// Last resort: called on the watcher thread when this rank has neither left nor ended 1.5 s after the first failure.
  /// The CLI prints the error and ends the process there.
  virtual void set_failure_handler(std::function<void(const Error&)> handler) = 0;
};
/// What is to be said of a rank that has left on purpose although others wait for it.
Error left_error(int rank, const std::string& wait);

/// Connects (rank 0 also serves) and waits until all ranks have joined. Throws Error{peer_unreachable} that names who
/// is missing, Error{launcher_mismatch} when ranks disagree about the world.
std::unique_ptr<RendezvousStore> make_rendezvous(const LaunchContext& launch, double timeout_seconds);

/// Communicator over the processes of `group` (this one must be a member); `name` keeps groups apart and must be used
/// once. Gloo for CPU devices, NCCL for CUDA devices.
std::unique_ptr<Communicator> make_gloo_communicator(RendezvousStore& store, const std::string& name,
                                                     const RankGroup& group, double timeout_seconds);
std::unique_ptr<Communicator> make_nccl_communicator(RendezvousStore& store, const std::string& name,
                                                     const RankGroup& group, Device& device, double timeout_seconds);
/// One process driving all `devices`: communicators in rank order.
std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(const std::vector<Device*>& devices,
                                                                   double timeout_seconds);
/// The same by MPI, between CPU processes that mpirun started; for comparison. No f16, bf16 and average, and additions
/// in MPI's order.
std::unique_ptr<Communicator> make_mpi_communicator(RendezvousStore& store, const std::string& name,
                                                    const RankGroup& group, double timeout_seconds);
Availability gloo_availability();
Availability mpi_availability();
Availability nccl_availability();
std::string nccl_version();  // "2.28.9", empty when unavailable

/// Runs fn(rank) on one thread per rank and returns when all are done. The first exception wins: `abort_all(error)` is
/// called once so that other ranks leave their waits, and the error is rethrown with its rank.
void run_rank_threads(int world_size, const std::function<void(int rank)>& fn,
                      const std::function<void(const Error&)>& abort_all);

}  // namespace amdahl
