// World: the ranks of a job and how they connect. Ranks are threads of this process, or processes started by a launcher
// (mpirun, torchrun, srun) with one rank each.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace amdahl {

/// Rank and world by the launcher's variables. `family`: "plain", "amdahl", "torchrun", "openmpi", "pmi" or "slurm".
struct LaunchContext {
  std::string family = "plain";
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  std::string master_address = "127.0.0.1";
  int master_port = 0;
  int last_port = 0;  // rank 0 takes the first free port from master_port to this one
  std::string job;    // what the launcher calls the job; ranks of another are refused
  bool multi_process() const { return world_size > 1; }
};

/// Uses the first family whose variables are set, in the order AMDAHL, torchrun, Open MPI, PMI/PMIx, Slurm. Throws
/// Error{launcher_mismatch} when two families disagree on rank or world size, or one is incomplete. `environment`: the
/// process environment, passed in by the CLI, because the library reads no variables itself.
LaunchContext detect_launch(const std::map<std::string, std::string>& environment);

/// Communicator of a single rank, on any device.
std::unique_ptr<Communicator> make_lone_communicator(Device& device);

/// Communicators of `world_size` ranks that are threads of this process, in rank order. CPU devices only.
std::vector<std::unique_ptr<Communicator>> make_inproc_communicators(int world_size, double timeout_seconds);

/// A key-value store shared by the ranks of a multi-process world, over TCP, served by a background thread of rank 0.
/// It detects a peer whose connection closes (died) or is silent for the timeout (hung) and reports it to all ranks.
/// Thread-safe. Must outlive the communicators made with it. Destruction without leave() counts as a death of this
/// rank.
class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;
  virtual const LaunchContext& launch() const = 0;
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Blocks until the key exists. Error{rank_hung} at the deadline; the first failure as soon as there is one. `from`:
  /// the rank that sets the key, or -1 when unknown; when it leaves without setting the key, all ranks get
  /// Error{rank_died}.
  virtual std::string get(const std::string& key, int from, Deadline deadline) = 0;
  /// Returns every member's `message`, in the group's order, once all have called with this unique `name` and the same
  /// group. At the deadline all ranks get Error{rank_hung} with the missing ranks; when a missing rank has left, they
  /// get Error{rank_died} at once.
  virtual std::vector<std::string> exchange(const std::string& name, const RankGroup& group, const std::string& message,
                                            Deadline deadline) = 0;

  /// First failure reported or detected by any rank, or null; its rank() is the rank that failed, not the one that
  /// detected it.
  virtual std::unique_ptr<Error> failure() = 0;
  /// Waits until the deadline for a first failure; null without one.
  virtual std::unique_ptr<Error> wait_failure(Deadline deadline) = 0;
  /// Reports a failure to all ranks; returns when the report is sent, after at most 0.5 s. Later reports are ignored.
  virtual void report_failure(const Error& error) noexcept = 0;
  /// Reports Error{interrupted} of this rank soon after `stopped` returns true, so that a rank that waits for others
  /// can end the work of all. The watcher thread polls `stopped`.
  virtual void report_when(std::function<bool()> stopped) = 0;
  /// Announces that this rank leaves on purpose, so that closing its connection is not a death. Call a barrier before
  /// when other ranks may still be in a collective with this rank.
  virtual void leave() noexcept = 0;
  /// The lowest rank in the job among the members that are known to have left; -1: none.
  virtual int left_rank(const RankGroup& group) = 0;

  /// `listener` is called, once or twice, on the watcher thread as soon as the first failure is known. Communicators
  /// register their abort here. A listener must not call the store.
  virtual size_t add_listener(std::function<void(const Error&)> listener) = 0;
  /// Waits for a running call of that listener.
  virtual void remove_listener(size_t id) noexcept = 0;
  /// Called on the watcher thread when this rank has not left 1.5 s after the first failure, as a last resort: the CLI
  /// prints the error and ends the process.
  virtual void set_failure_handler(std::function<void(const Error&)> handler) = 0;
};
/// The error for a rank that has left on purpose although others wait for it.
Error left_error(int rank, const std::string& wait);

/// Connects (rank 0 also starts the server) and waits until all ranks have joined. Throws Error{peer_unreachable} that
/// names the missing ranks, Error{launcher_mismatch} when ranks disagree about the world.
std::unique_ptr<RendezvousStore> make_rendezvous(const LaunchContext& launch, double timeout_seconds);

/// Tells the other ranks, which wait in make_rendezvous for this one or will, why it ends before that. Takes at most a
/// few seconds.
void tell_early_end(const LaunchContext& launch, const Error& error) noexcept;

/// Communicator over the processes of `group`, which must include this one; `name` identifies the group and must be
/// unique. Gloo for CPU devices, NCCL for CUDA devices.
std::unique_ptr<Communicator> make_gloo_communicator(RendezvousStore& store, const std::string& name,
                                                     const RankGroup& group, double timeout_seconds);
std::unique_ptr<Communicator> make_nccl_communicator(RendezvousStore& store, const std::string& name,
                                                     const RankGroup& group, Device& device, double timeout_seconds);
/// Communicators for one process that drives all `devices`, in rank order.
std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(const std::vector<Device*>& devices,
                                                                   double timeout_seconds);
/// Communicator over MPI between CPU processes started by mpirun, for comparison. No f16, bf16 and average; additions
/// in MPI's order.
std::unique_ptr<Communicator> make_mpi_communicator(RendezvousStore& store, const std::string& name,
                                                    const RankGroup& group, double timeout_seconds);
Availability gloo_availability();
Availability mpi_availability();
Availability nccl_availability();
std::string nccl_version();  // "2.28.9", empty when unavailable

/// Runs fn(rank) on one thread per rank and returns when all are done. After the first exception `abort_all(error)` is
/// called once, so that other ranks leave their waits; the error is rethrown with its rank.
void run_rank_threads(int world_size, const std::function<void(int rank)>& fn,
                      const std::function<void(const Error&)>& abort_all);

/// Rank `rank` of `size`. It cannot be split.
std::unique_ptr<Communicator> make_recording_communicator(int rank, int size);

}  // namespace amdahl
