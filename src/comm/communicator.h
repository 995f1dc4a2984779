// Communicator: collectives between ranks, asynchronous on a stream, rank-local.
//
// Each rank holds one Communicator and calls the same collectives in the same order from its own host thread. A call
// enqueues on `stream` and returns; its deadline (set at creation) starts when the stream reaches it. On failure the
// stream's next synchronize throws the first cause: rank_died, rank_hung, collective_mismatch.
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

/// How a backend knows a buffer before collectives use it.
enum class Registration {
  none,
  buffer,  // by itself on each rank
  window,  // one window over all ranks: a collective's memory lies at the same offset of each
};

/// What `Communicator::allocate_registered` is asked for.
struct RegisteredMemory {
  size_t bytes = 0;
  Registration how = Registration::buffer;
  Deadline deadline = Deadline::after_seconds(0);
};

std::string_view to_string(ReduceOp op);
/// "plain", "registered", "symmetric".
std::string_view to_string(Registration how);

/// What this rank handed to collectives, by payload (not wire traffic): each call counts `count * size_of(type)` bytes,
/// whatever its kind, root or backend. exchange() does not count. Read by the traffic test.
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

  /// Over all ranks; every rank ends with bit-equal contents (reduced in rank order on CPU). `recv` may be `send`.
  virtual void all_reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) = 0;
  void all_reduce(void* data, size_t count, DType type, ReduceOp op, Stream& stream) {
    all_reduce(data, data, count, type, op, stream);
  }
  /// Result in `recv` of `root`, which may be its `send`; other ranks' memory keeps its contents.
  virtual void reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, int root,
                      Stream& stream) = 0;
  void reduce(void* data, size_t count, DType type, ReduceOp op, int root, Stream& stream) {
    reduce(data, data, count, type, op, root, stream);
  }
  /// `send` of root to every rank's `recv`, which may be `send`; `send` is ignored elsewhere.
  virtual void broadcast(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) = 0;
  void broadcast(void* data, size_t count, DType type, int root, Stream& stream) {
    broadcast(data, data, count, type, root, stream);
  }
  /// `count` elements from each rank into recv[rank * count].
  virtual void all_gather(const void* send, void* recv, size_t count, DType type, Stream& stream) = 0;
  /// `send` [world * count] reduced over all ranks: elements [rank * count, (rank + 1) * count) of the result go to
  /// `recv`, which may be that part of `send` (the rest of `send` keeps its contents then).
  virtual void reduce_scatter(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) = 0;
  /// `send` [world * count] on root is cut into `count` elements for each rank's `recv`; `send` is ignored elsewhere.
  virtual void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) = 0;
  /// `count` elements of each rank's `send` into recv[rank * count] of root; `recv` is ignored elsewhere. The root's
  /// `send` may be its own part of `recv`.
  virtual void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) = 0;
  /// `send` [world * count]: elements [r * count, (r + 1) * count) go to rank r, into its recv[rank * count]. `send`
  /// and `recv` are apart.
  virtual void all_to_all(const void* send, void* recv, size_t count, DType type, Stream& stream) = 0;
  virtual void send(const void* data, size_t count, DType type, int peer, Stream& stream) = 0;
  virtual void recv(void* data, size_t count, DType type, int peer, Stream& stream) = 0;

  /// Both at once, so that a ring of ranks that all send first does not wait for itself. One of the peers may be the
  /// other.
  virtual void send_recv(const void* data, int to, void* received, int from, size_t count, DType type,
                         Stream& stream) = 0;

  /// Device memory that this communicator's collectives know beforehand. Collective and blocking on the host: every
  /// rank asks alike, and frees the buffer once all have ended their work on it and before the communicator goes.
  /// Error{usage} where the backend registers nothing, Error{environment_missing} where it would but cannot here,
  /// Error{out_of_memory} on all ranks when one has no room.
  virtual std::unique_ptr<Buffer> allocate_registered(const RegisteredMemory& wanted) {
    throw Error(
        Cause::usage,
        "the communicator '" + backend_name() + "' registers no " + std::string(to_string(wanted.how)) + " buffers",
        "plain buffers (-R 0), or NCCL");
  }

  /// Control plane, blocking on the host: every rank's `message`, in rank order, on every rank. Also the barrier.
  virtual std::vector<std::string> exchange(const std::string& message, Deadline deadline) = 0;
  void barrier(Deadline deadline) { exchange({}, deadline); }

  /// A communicator over the ranks that pass the same `color`, in the order of `key` and, where keys are equal, of this
  /// one's ranks; null for a color below 0. Collective and blocking on the host. It must not outlive this one; when a
  /// rank fails, both fail.
  std::unique_ptr<Communicator> split(int color, int key, Deadline deadline);

  /// Ends every pending and future call on all ranks that can be reached, with this cause. Any thread; never throws.
  virtual void abort(const Error& cause) noexcept = 0;

  /// Whether all ranks are threads of one process, so that they can hand each other pointers by `exchange`.
  virtual bool shares_address_space() const { return false; }

  /// Keeps something that other ranks were told the address of for as long as this communicator stands, which is longer
  /// than any rank of the group works. `release_kept` ends that once all have looked.
  void keep(std::shared_ptr<const void> shared) { kept_.push_back(std::move(shared)); }
  void release_kept() { kept_.clear(); }

  /// Deadline of collectives from here on, where the backend has one of its own (seconds). Every rank sets the same.
  virtual void set_timeout(double seconds) { (void)seconds; }

  /// Where calls are noted from here on; null: nowhere.
  void set_flight_recorder(std::shared_ptr<FlightRecorder> recorder) { flight_ = std::move(recorder); }

  CommTraffic traffic() const { return traffic_; }
  void reset_traffic() { traffic_ = {}; }

  /// Each collective counts itself; what moves the same payload past the collectives counts here.
  void count_traffic(size_t bytes) {
    ++traffic_.num_calls;
    traffic_.payload_bytes += bytes;
  }

 protected:
  /// Over the members of `group`, which are ranks of this communicator; each of them calls this. `name` is used once.
  virtual std::unique_ptr<Communicator> make_subgroup(const RankGroup& group, const std::string& name,
                                                      Deadline deadline) {
    (void)group, (void)name, (void)deadline;
    throw Error(Cause::usage, "the communicator '" + backend_name() + "' cannot be split");
  }

  /// Into the flight recorder; the call's end is told to what it returns.
  FlightNote note(const CollectiveCall& call) const;
  /// The same, and its payload is counted.
  FlightNote count_call(const CollectiveCall& call);

 private:
  uint64_t splits_ = 0;
  std::shared_ptr<FlightRecorder> flight_;
  CommTraffic traffic_;
  std::vector<std::shared_ptr<const void>> kept_;
};

}  // namespace amdahl
