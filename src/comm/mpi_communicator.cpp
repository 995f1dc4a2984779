// Collectives between processes over MPI, for comparison with the other transports. Blocking MPI calls have no
// deadline, so every call is non-blocking and polled. At the deadline, or when another rank has failed, the work is
// abandoned and the process must end without MPI_Finalize, which would wait for it.
#define OMPI_SKIP_MPICXX 1  // the C interface alone
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/wait_point.h"
#include "comm/collective_call.h"
#include "comm/flight_recorder.h"
#include "comm/world.h"
#include "device/cpu_stream.h"

namespace amdahl {
namespace {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(Cause::device_error, fmt::format("{}: {}", call, text), "mpirun's own messages say more");
}

/// MPI of this process, from the first communicator to the last; MPI can be initialised only once per process.
class MpiSession {
 public:
  static std::shared_ptr<MpiSession> open() {
    static std::mutex mutex;
    static std::weak_ptr<MpiSession> present;  // MPI's state is per process
    std::lock_guard lock(mutex);
    if (auto session = present.lock()) return session;
    auto session = std::shared_ptr<MpiSession>(new MpiSession);
    present = session;
    return session;
  }
  ~MpiSession() {
    if (!given_up) MPI_Finalize();
  }
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  std::atomic<bool> given_up{false};

 private:
  MpiSession() {
    int ended = 0, level = MPI_THREAD_SINGLE;
    MPI_Finalized(&ended);
    if (ended) throw Error(Cause::internal, "MPI was used and ended before in this process");
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (level < MPI_THREAD_MULTIPLE)
      throw Error(Cause::environment_missing, "this MPI serves one thread at a time",
                  "an MPI with MPI_THREAD_MULTIPLE");
  }
};

MPI_Datatype mpi_type(DType type) {
  switch (type) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f64:
      return MPI_DOUBLE;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
    case DType::u8:
      return MPI_UINT8_T;
    case DType::u32:
      return MPI_UINT32_T;
    case DType::f16:
    case DType::bf16:
      break;
  }
  throw Error(Cause::usage, fmt::format("MPI has no {}", to_string(type)), "f32, f64, i32, i64, u8 or u32, or Gloo");
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return MPI_SUM;
    case ReduceOp::prod:
      return MPI_PROD;
    case ReduceOp::min:
      return MPI_MIN;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::avg:
      break;
  }
  throw Error(Cause::usage, "MPI has no average", "sum, prod, min or max, or Gloo");
}

int mpi_count(size_t count) {
  if (count > static_cast<size_t>(INT_MAX))
    throw Error(Cause::usage, fmt::format("{} elements in a call: MPI counts to {}", count, INT_MAX), "smaller sizes");
  return static_cast<int>(count);
}

/// State used by queued work, which may outlive the communicator.
struct MpiGroup {
  std::shared_ptr<MpiSession> session = MpiSession::open();
  MPI_Comm comm = MPI_COMM_NULL;
  RendezvousStore& store;
  RankGroup members;
  std::atomic<double> timeout_seconds;
  std::vector<char> scratch;  // used by one ordered collective at a time
  std::atomic<uint64_t> turn{1};
  WaitPoint changed;
  std::mutex mutex;  // guards cause
  std::unique_ptr<Error> cause;
  std::atomic<bool> failed{false};

  MpiGroup(RendezvousStore& rendezvous, RankGroup group, double timeout)
      : store(rendezvous), members(std::move(group)), timeout_seconds(timeout) {}
  ~MpiGroup() {
    if (comm != MPI_COMM_NULL && !session->given_up) MPI_Comm_free(&comm);
  }
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;

  void fail(const Error& error) noexcept {
    {
      std::lock_guard lock(mutex);
      if (!cause) cause = std::make_unique<Error>(error);
    }
    session->given_up = true;
    failed.store(true, std::memory_order_release);
    changed.notify();
  }
  void throw_if_failed() {
    if (!failed.load(std::memory_order_acquire)) return;
    std::lock_guard lock(mutex);
    throw Error(*cause);
  }
  [[noreturn]] void give_up(const CollectiveCall& call) {
    const Error error(Cause::rank_hung,
                      fmt::format("{} over MPI did not end within {:g} s: a rank is missing", to_string(call.kind),
                                  timeout_seconds.load()),
                      "a larger `timeout_seconds`, or the other ranks' own messages");
    fail(error);
    store.report_failure(error);
    throw Error(error);
  }
  void wait(MPI_Request request, const CollectiveCall& call, Deadline deadline) {
    for (int done = 0;;) {
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done) return;
      throw_if_failed();
      if (deadline.expired()) give_up(call);
      std::this_thread::yield();
    }
  }
};

using Start = std::function<void(MpiGroup& group, MPI_Request* request)>;

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(RendezvousStore& store, std::string name, const RankGroup& group, double timeout_seconds)
      : group_(std::make_shared<MpiGroup>(store, group, timeout_seconds)), group_name_(std::move(name)) {
    join();
    listener_ = store.add_listener([group = group_](const Error& error) { group->fail(error); });
  }
  ~MpiCommunicator() override { group_->store.remove_listener(listener_); }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return group_->members.rank; }
  int world_size() const override { return group_->members.size(); }
  const std::string& backend_name() const override { return name_; }

  void all_reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    run(stream, {CollectiveKind::all_reduce, 0, count, type, op, -1},
        [=, n = mpi_count(count), t = mpi_type(type), o = mpi_op(op)](MpiGroup& group, MPI_Request* request) {
          check(MPI_Iallreduce(send == recv ? MPI_IN_PLACE : send, recv, n, t, o, group.comm, request),
                "MPI_Iallreduce");
        });
  }
  void reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    run(stream, {CollectiveKind::reduce, 0, count, type, op, root},
        [=, n = mpi_count(count), t = mpi_type(type), o = mpi_op(op)](MpiGroup& group, MPI_Request* request) {
          const bool in_place = group.members.rank == root && send == recv;
          check(MPI_Ireduce(in_place ? MPI_IN_PLACE : send, recv, n, t, o, root, group.comm, request), "MPI_Ireduce");
        });
  }
  void broadcast(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    const CollectiveCall call{CollectiveKind::broadcast, 0, count, type, ReduceOp::sum, root};
    run(stream, call, [=, n = mpi_count(call.bytes())](MpiGroup& group, MPI_Request* request) {
      if (group.members.rank == root && send != recv && call.bytes() > 0) std::memcpy(recv, send, call.bytes());
      check(MPI_Ibcast(recv, n, MPI_BYTE, root, group.comm, request), "MPI_Ibcast");
    });
  }
  void all_gather(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    const CollectiveCall call{CollectiveKind::all_gather, 0, count, type, ReduceOp::sum, -1};
    run(stream, call, [=, n = mpi_count(call.bytes())](MpiGroup& group, MPI_Request* request) {
      const bool in_place = send == at(recv, static_cast<size_t>(group.members.rank) * call.bytes());
      check(MPI_Iallgather(in_place ? MPI_IN_PLACE : send, n, MPI_BYTE, recv, n, MPI_BYTE, group.comm, request),
            "MPI_Iallgather");
    });
  }
  void reduce_scatter(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    const CollectiveCall call{CollectiveKind::reduce_scatter, 0, count, type, op, -1};
    run(stream, call,
        [=, n = mpi_count(count), t = mpi_type(type), o = mpi_op(op)](MpiGroup& group, MPI_Request* request) {
          const size_t whole = call.bytes() * static_cast<size_t>(group.members.size());
          const bool overlaps = recv >= send && recv < at(unconst(send), whole);
          if (overlaps) group.scratch.assign(static_cast<const char*>(send), static_cast<const char*>(send) + whole);
          check(MPI_Ireduce_scatter_block(overlaps ? group.scratch.data() : send, recv, n, t, o, group.comm, request),
                "MPI_Ireduce_scatter_block");
        });
  }
  void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    const CollectiveCall call{CollectiveKind::scatter, 0, count, type, ReduceOp::sum, root};
    run(stream, call, [=, n = mpi_count(call.bytes())](MpiGroup& group, MPI_Request* request) {
      const bool in_place =
          group.members.rank == root && recv == at(unconst(send), static_cast<size_t>(root) * call.bytes());
      check(MPI_Iscatter(send, n, MPI_BYTE, in_place ? MPI_IN_PLACE : recv, n, MPI_BYTE, root, group.comm, request),
            "MPI_Iscatter");
    });
  }
  void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    const CollectiveCall call{CollectiveKind::gather, 0, count, type, ReduceOp::sum, root};
    run(stream, call, [=, n = mpi_count(call.bytes())](MpiGroup& group, MPI_Request* request) {
      const bool in_place = group.members.rank == root && send == at(recv, static_cast<size_t>(root) * call.bytes());
      check(MPI_Igather(in_place ? MPI_IN_PLACE : send, n, MPI_BYTE, recv, n, MPI_BYTE, root, group.comm, request),
            "MPI_Igather");
    });
  }
  void all_to_all(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    const CollectiveCall call{CollectiveKind::all_to_all, 0, count, type, ReduceOp::sum, -1};
    run(stream, call, [=, n = mpi_count(call.bytes())](MpiGroup& group, MPI_Request* request) {
      check(MPI_Ialltoall(send, n, MPI_BYTE, recv, n, MPI_BYTE, group.comm, request), "MPI_Ialltoall");
    });
  }

  void send(const void* data, size_t count, DType type, int peer, Stream& stream) override {
    pass(stream, {CollectiveKind::send, 0, count, type, ReduceOp::sum, peer}, data, nullptr, -1);
  }
  void recv(void* data, size_t count, DType type, int peer, Stream& stream) override {
    pass(stream, {CollectiveKind::recv, 0, count, type, ReduceOp::sum, -1}, nullptr, data, peer);
  }
  void send_recv(const void* data, int to, void* received, int from, size_t count, DType type,
                 Stream& stream) override {
    pass(stream, {CollectiveKind::send, 0, count, type, ReduceOp::sum, to}, data, received, from);
  }

  std::vector<std::string> exchange(const std::string& message, Deadline deadline) override {
    group_->throw_if_failed();
    const FlightNote noted = note({CollectiveKind::exchange, ++exchanges_, 0, DType::u8, ReduceOp::sum, -1});
    std::vector<std::string> messages =
        group_->store.exchange(fmt::format("{}/{}", group_name_, exchanges_), group_->members, message, deadline);
    noted.finished();
    return messages;
  }

  std::unique_ptr<Communicator> make_subgroup(const RankGroup& group, const std::string& name, Deadline) override {
    return make_mpi_communicator(group_->store, fmt::format("{}/{}", group_name_, name), group.within(group_->members),
                                 group_->timeout_seconds);
  }

  void abort(const Error& cause) noexcept override {
    group_->store.report_failure(cause);
    group_->fail(cause);
  }
  void set_timeout(double seconds) override { group_->timeout_seconds = seconds; }

 private:
  /// An MPI communicator of the group's ranks; the ranks of MPI_COMM_WORLD must be those of the launcher.
  void join() {
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    std::vector<int> members = group_->members.members;
    if (rank != group_->members.own_job_rank() || size <= *std::max_element(members.begin(), members.end()))
      throw Error(Cause::launcher_mismatch,
                  fmt::format("MPI says rank {} of {}, the launcher's variables rank {} of {}", rank, size,
                              group_->store.launch().rank, group_->store.launch().world_size),
                  "mpirun of the MPI that amdahl was built with");
    MPI_Group all = MPI_GROUP_NULL, ours = MPI_GROUP_NULL;
    check(MPI_Comm_group(MPI_COMM_WORLD, &all), "MPI_Comm_group");
    check(MPI_Group_incl(all, group_->members.size(), members.data(), &ours), "MPI_Group_incl");
    check(MPI_Comm_create_group(MPI_COMM_WORLD, ours, 0, &group_->comm), "MPI_Comm_create_group");
    MPI_Group_free(&ours);
    MPI_Group_free(&all);
    MPI_Comm_set_errhandler(group_->comm, MPI_ERRORS_RETURN);
  }

  /// Runs the collectives of all streams one after another, in the order of the host's calls, which is equal on all
  /// ranks.
  void run(Stream& stream, CollectiveCall call, Start start) {
    call.seq = ++calls_;
    as_cpu(stream).enqueue([group = group_, call, start = std::move(start), noted = count_call(call)] {
      const Deadline deadline = Deadline::after_seconds(group->timeout_seconds);
      const auto mine = [&] { return group->failed || group->turn.load(std::memory_order_acquire) == call.seq; };
      if (!group->changed.wait(mine, deadline)) group->give_up(call);
      group->throw_if_failed();
      MPI_Request request = MPI_REQUEST_NULL;
      start(*group, &request);
      group->wait(request, call, deadline);
      group->turn.fetch_add(1, std::memory_order_acq_rel);
      group->changed.notify();
      noted.finished();
    });
  }

  void pass(Stream& stream, const CollectiveCall& call, const void* data, void* received, int from) {
    for (const int peer : {call.root, from}) {
      if (peer < 0) continue;
      check_rank(peer, world_size(), "peer");
      if (peer == rank()) throw Error(Cause::usage, fmt::format("rank {} cannot send to itself", peer));
    }
    as_cpu(stream).enqueue(
        [group = group_, call, data, received, from, n = mpi_count(call.bytes()), noted = count_call(call)] {
          group->throw_if_failed();
          const Deadline deadline = Deadline::after_seconds(group->timeout_seconds);
          MPI_Request in = MPI_REQUEST_NULL, out = MPI_REQUEST_NULL;
          if (received) check(MPI_Irecv(received, n, MPI_BYTE, from, 0, group->comm, &in), "MPI_Irecv");
          if (data) check(MPI_Isend(data, n, MPI_BYTE, call.root, 0, group->comm, &out), "MPI_Isend");
          if (received) group->wait(in, call, deadline);
          if (data) group->wait(out, call, deadline);
          noted.finished();
        });
  }

  const std::string name_ = "mpi";
  const std::shared_ptr<MpiGroup> group_;
  const std::string group_name_;
  size_t listener_ = 0;
  uint64_t calls_ = 0, exchanges_ = 0;  // host thread only
};

}  // namespace

std::unique_ptr<Communicator> make_mpi_communicator(RendezvousStore& store, const std::string& name,
                                                    const RankGroup& group, double timeout_seconds) {
  check_rank(group.rank, group.size(), "this process's rank");
  return std::make_unique<MpiCommunicator>(store, name, group, timeout_seconds);
}

Availability mpi_availability() { return {true, {}, {}}; }

}  // namespace amdahl
