// Communicator: one rank's access to collectives, which run asynchronously on a stream.
//
// Each rank has its own Communicator and calls the same collectives in the same order from its host thread. A call
// enqueues on `stream` and returns; its deadline (set at creation) starts when the stream reaches it. After a failure
// the stream's next synchronize throws the first cause: rank_died, rank_hung, collective_mismatch. Not thread-safe,
// except for abort().
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amdahl/tensor.h"
#include "comm/rank_group.h"
#include "device/device.h"

namespace amdahl {

enum class ReduceOp { sum, max, min, prod, avg };

/// How a buffer is registered with the backend before collectives use it.
enum class Registration {
  none,
  buffer,  // separately on each rank
  window,  // one window over all ranks: a collective uses the same offset on each rank
};

/// Arguments of `Communicator::allocate_registered`.
struct RegisteredMemory {
  size_t bytes = 0;
  Registration how = Registration::buffer;
  Deadline deadline = Deadline::after_seconds(0);
};

std::string_view to_string(ReduceOp op);
/// "plain", "registered", "symmetric".
std::string_view to_string(Registration how);

/// Payload of this rank's collectives (not wire traffic): each call counts `count * size_of(type)` bytes, whatever its
/// kind, root or backend. exchange() does not count.
struct CommTraffic {
  size_t num_calls = 0;
  size_t payload_bytes = 0;
};

struct CollectiveCall;
class FlightNote;
class FlightRecorder;

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// "alone", "threads", "gloo" or "nccl".
  virtual const std::string& backend_name() const = 0;

  /// Reduces over all ranks; every rank gets bitwise equal results (on CPU, reduced in rank order). `recv` may be
  /// `send`.
  virtual void all_reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) = 0;
  void all_reduce(void* data, size_t count, DType type, ReduceOp op, Stream& stream) {
    all_reduce(data, data, count, type, op, stream);
  }
  /// The result goes to `recv` of `root`, which may be its `send`; memory of other ranks is unchanged.
  virtual void reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, int root,
                      Stream& stream) = 0;
  void reduce(void* data, size_t count, DType type, ReduceOp op, int root, Stream& stream) {
    reduce(data, data, count, type, op, root, stream);
  }
  /// Copies `send` of `root` to every rank's `recv`, which may be `send`. Other ranks' `send` is ignored.
  virtual void broadcast(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) = 0;
  void broadcast(void* data, size_t count, DType type, int root, Stream& stream) {
    broadcast(data, data, count, type, root, stream);
  }
  /// Copies `count` elements of each rank to recv[rank * count].
  virtual void all_gather(const void* send, void* recv, size_t count, DType type, Stream& stream) = 0;
  /// Reduces `send` [world * count] over all ranks: elements [rank * count, (rank + 1) * count) of the result go to
  /// `recv`, which may be that part of `send`; the rest of `send` is unchanged.
  virtual void reduce_scatter(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) = 0;
  /// Scatters `send` [world * count] of `root`, `count` elements to each rank's `recv`. Other ranks' `send` is ignored.
  virtual void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) = 0;
  /// Gathers `count` elements of each rank's `send` in recv[rank * count] of `root`. Other ranks' `recv` is ignored.
  /// The root's `send` may be its own part of `recv`.
  virtual void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) = 0;
  /// Elements [r * count, (r + 1) * count) of `send` [world * count] go to recv[rank * count] of rank r. `send` and
  /// `recv` must not overlap.
  virtual void all_to_all(const void* send, void* recv, size_t count, DType type, Stream& stream) = 0;
  virtual void send(const void* data, size_t count, DType type, int peer, Stream& stream) = 0;
  virtual void recv(void* data, size_t count, DType type, int peer, Stream& stream) = 0;

  /// Sends and receives concurrently, so that a ring of ranks cannot deadlock. `to` and `from` may be the same rank.
  virtual void send_recv(const void* data, int to, void* received, int from, size_t count, DType type,
                         Stream& stream) = 0;

  /// Allocates device memory that is registered for this communicator's collectives. Collective, blocks the host. Every
  /// rank passes the same arguments, and frees the buffer after all ranks have finished their work on it and before the
  /// communicator is destroyed. Error{usage} when the backend has no registration, Error{environment_missing} when this
  /// machine does not support it, Error{out_of_memory} on all ranks when one rank has too little memory.
  virtual std::unique_ptr<Buffer> allocate_registered(const RegisteredMemory& wanted) {
    throw Error(
        Cause::usage,
        "the communicator '" + backend_name() + "' registers no " + std::string(to_string(wanted.how)) + " buffers",
        "plain buffers (-R 0), or NCCL");
  }

  /// Control plane, blocks the host: returns every rank's `message`, in rank order, on every rank.
  virtual std::vector<std::string> exchange(const std::string& message, Deadline deadline) = 0;
  void barrier(Deadline deadline) { exchange({}, deadline); }

  /// A communicator over the ranks with the same `color`, ordered by `key`, then by rank; null for a color below 0.
  /// Collective, blocks the host. It must not outlive this one; when a rank fails, both fail.
  std::unique_ptr<Communicator> split(int color, int key, Deadline deadline);

  /// The communicator of `group`, whose members are ranks of this one and all call this with the same unique `name`.
  /// For communicators built on others; else use split.
  std::unique_ptr<Communicator> subgroup(const RankGroup& group, const std::string& name, Deadline deadline) {
    return make_subgroup(group, name, deadline);
  }

  /// Ends every pending and future call on all reachable ranks with this cause. Thread-safe; does not throw.
  virtual void abort(const Error& cause) noexcept = 0;
  /// Throws the first failure of the group once it is known here. Thread-safe; for waits of code that is built on this
  /// communicator.
  virtual void throw_if_failed() {}

  /// Device memory that a communicator of so many of these ranks takes, as split makes it, as far as this code
  /// allocates it.
  virtual int64_t device_bytes(int ranks) const {
    (void)ranks;
    return 0;
  }

  /// Whether all ranks are threads of one process, so that they can exchange pointers.
  virtual bool shares_address_space() const { return false; }

  /// Keeps an object whose address other ranks know alive as long as this communicator, which outlives the work of all
  /// ranks of the group. `release_kept` releases such objects once no rank uses them.
  void keep(std::shared_ptr<const void> shared) { kept_.push_back(std::move(shared)); }
  void release_kept() { kept_.clear(); }

  /// Deadline in seconds of later collectives, for backends with their own deadline. Every rank sets the same value.
  virtual void set_timeout(double seconds) { (void)seconds; }

  /// Records later calls in `recorder`; null: nowhere.
  void set_flight_recorder(std::shared_ptr<FlightRecorder> recorder) { flight_ = std::move(recorder); }

  CommTraffic traffic() const { return traffic_; }
  void reset_traffic() { traffic_ = {}; }

  /// Collectives count themselves; code that moves their payload by other means calls this.
  void count_traffic(size_t bytes) {
    ++traffic_.num_calls;
    traffic_.payload_bytes += bytes;
  }

 protected:
  /// A communicator over the members of `group`, which are ranks of this one and all call this. `name` is unique.
  virtual std::unique_ptr<Communicator> make_subgroup(const RankGroup& group, const std::string& name,
                                                      Deadline deadline) {
    (void)group, (void)name, (void)deadline;
    throw Error(Cause::usage, "the communicator '" + backend_name() + "' cannot be split");
  }

  /// Records the call; the returned note is to be told when the call ends.
  FlightNote note(const CollectiveCall& call) const;
  /// Records the call and counts its payload.
  FlightNote count_call(const CollectiveCall& call);

 private:
  uint64_t splits_ = 0;
  std::shared_ptr<FlightRecorder> flight_;
  CommTraffic traffic_;
  std::vector<std::shared_ptr<const void>> kept_;
};

}  // namespace amdahl
