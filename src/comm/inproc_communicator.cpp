// Collectives between threads of this process: ranks publish pointers, and each rank computes its share.
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <utility>

#include "comm/call_order.h"
#include "comm/flight_recorder.h"
#include "comm/inproc_group.h"
#include "comm/reduce_kernels.h"
#include "comm/world.h"
#include "device/cpu_stream.h"

namespace amdahl {
namespace {

using Plane = InprocGroup::Plane;

void copy(void* destination, const void* source, size_t bytes) {
  if (bytes > 0 && destination != source) std::memcpy(destination, source, bytes);
}

class InprocCommunicator : public Communicator {
 public:
  InprocCommunicator(std::shared_ptr<InprocGroup> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int world_size() const override { return group_->world_size(); }
  const std::string& backend_name() const override { return name_; }

  bool shares_address_space() const override { return true; }

  void all_reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    run(stream, {CollectiveKind::all_reduce, 0, count, type, op, -1}, send, recv,
        [](InprocGroup& group, int rank, const CollectiveCall& call) { reduce_share(group, rank, call, true); });
  }

  void reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    run(stream, {CollectiveKind::reduce, 0, count, type, op, root}, send, recv,
        [](InprocGroup& group, int rank, const CollectiveCall& call) { reduce_share(group, rank, call, false); });
  }

  void broadcast(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    run(stream, {CollectiveKind::broadcast, 0, count, type, ReduceOp::sum, root}, send, recv,
        [](InprocGroup& group, int rank, const CollectiveCall& call) {
          copy(group.slot(Plane::stream, rank).recv, group.slot(Plane::stream, call.root).send, call.bytes());
        });
  }

  void all_gather(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    run(stream, {CollectiveKind::all_gather, 0, count, type, ReduceOp::sum, -1}, send, recv,
        [](InprocGroup& group, int rank, const CollectiveCall& call) {
          auto* out = static_cast<char*>(group.slot(Plane::stream, rank).recv);
          for (int from = 0; from < group.world_size(); ++from)
            copy(out + static_cast<size_t>(from) * call.bytes(), group.slot(Plane::stream, from).send, call.bytes());
        });
  }

  void reduce_scatter(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    run(stream, {CollectiveKind::reduce_scatter, 0, count, type, op, -1}, send, recv, reduce_part);
  }

  void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    run(stream, {CollectiveKind::scatter, 0, count, type, ReduceOp::sum, root}, send, recv,
        [](InprocGroup& group, int rank, const CollectiveCall& call) {
          const auto* in = static_cast<const char*>(group.slot(Plane::stream, call.root).send);
          copy(group.slot(Plane::stream, rank).recv, in + static_cast<size_t>(rank) * call.bytes(), call.bytes());
        });
  }

  void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    run(stream, {CollectiveKind::gather, 0, count, type, ReduceOp::sum, root}, send, recv,
        [](InprocGroup& group, int rank, const CollectiveCall& call) {  // each rank copies its own part
          auto* out = static_cast<char*>(group.slot(Plane::stream, call.root).recv);
          copy(out + static_cast<size_t>(rank) * call.bytes(), group.slot(Plane::stream, rank).send, call.bytes());
        });
  }

  void all_to_all(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    run(stream, {CollectiveKind::all_to_all, 0, count, type, ReduceOp::sum, -1}, send, recv,
        [](InprocGroup& group, int rank, const CollectiveCall& call) {
          auto* out = static_cast<char*>(group.slot(Plane::stream, rank).recv);
          for (int from = 0; from < group.world_size(); ++from) {
            const auto* in = static_cast<const char*>(group.slot(Plane::stream, from).send);
            copy(out + static_cast<size_t>(from) * call.bytes(), in + static_cast<size_t>(rank) * call.bytes(),
                 call.bytes());
          }
        });
  }

  void send(const void* data, size_t count, DType type, int peer, Stream& stream) override {
    check_peer(peer);
    const CollectiveCall call{
        CollectiveKind::send, ++sent_[static_cast<size_t>(peer)], count, type, ReduceOp::sum, peer};
    as_cpu(stream).enqueue([group = group_, rank = rank_, call, data, noted = count_call(call)] {
      run_send(*group, rank, call, data);
      noted.finished();
    });
  }

  void recv(void* data, size_t count, DType type, int peer, Stream& stream) override {
    check_peer(peer);
    const CollectiveCall call{
        CollectiveKind::recv, ++received_[static_cast<size_t>(peer)], count, type, ReduceOp::sum, peer};
    as_cpu(stream).enqueue([group = group_, rank = rank_, call, data, noted = count_call(call)] {
      run_recv(*group, rank, call, data);
      noted.finished();
    });
  }

  void send_recv(const void* data, int to, void* received, int from, size_t count, DType type,
                 Stream& stream) override {
    check_peer(to);
    check_peer(from);
    const CollectiveCall out{CollectiveKind::send, ++sent_[static_cast<size_t>(to)], count, type, ReduceOp::sum, to};
    const CollectiveCall in{
        CollectiveKind::recv, ++received_[static_cast<size_t>(from)], count, type, ReduceOp::sum, from};
    as_cpu(stream).enqueue([group = group_, rank = rank_, out, in, data, received, noted = count_call(out)] {
      const Deadline deadline = Deadline::after_seconds(group->timeout_seconds());
      post(*group, rank, out, data, deadline);
      run_recv(*group, rank, in, received);
      wait_for_receiver(*group, rank, out, deadline);
      noted.finished();
    });
  }

  std::vector<std::string> exchange(const std::string& message, Deadline deadline) override {
    const CollectiveCall call{CollectiveKind::exchange, ++exchanges_, 0, DType::u8, ReduceOp::sum, -1};
    const double seconds = std::chrono::duration<double>(deadline.time() - Deadline::Clock::now()).count();
    if (group_->failed()) group_->leave();  // other ranks may still read the last message
    const FlightNote noted = note(call);
    group_->slot(Plane::control, rank_).message = message;
    group_->meet(Plane::control, rank_, call, deadline, seconds);
    std::vector<std::string> messages;
    for (int from = 0; from < world_size(); ++from) messages.push_back(group_->slot(Plane::control, from).message);
    group_->meet(Plane::control, rank_, call, deadline, seconds);
    noted.finished();
    return messages;
  }

  std::unique_ptr<Communicator> make_subgroup(const RankGroup& group, const std::string& name, Deadline) override {
    return std::make_unique<InprocCommunicator>(group_->subgroup(group, name), group.rank);
  }

  void abort(const Error& cause) noexcept override { group_->fail(cause); }
  void throw_if_failed() override {
    if (group_->failed()) group_->leave();
  }
  void set_timeout(double seconds) override { group_->set_timeout(seconds); }

 private:
  using Work = void (*)(InprocGroup& group, int rank, const CollectiveCall& call);

  void check_peer(int peer) const {
    check_rank(peer, world_size(), "peer");
    if (peer == rank_) throw Error(Cause::usage, fmt::format("rank {} cannot send to itself", peer));
  }

  /// Enqueues one collective: publish, barrier, check that all calls match, compute this rank's share, barrier.
  void run(Stream& stream, CollectiveCall call, const void* send, void* recv, Work work) {
    call.seq = ++calls_;
    as_cpu(stream).enqueue(
        [group = group_, order = order_, rank = rank_, call, send, recv, work, noted = count_call(call)] {
          const Deadline deadline = Deadline::after_seconds(group->timeout_seconds());
          group->wait_for_peer(
              order->changed(), [&] { return order->turn_of(call.seq); }, rank, call, deadline);
          InprocSlot& slot = group->slot(Plane::stream, rank);
          slot.call = call;
          slot.send = send;
          slot.recv = recv;
          group->meet(Plane::stream, rank, call, deadline, group->timeout_seconds());
          check_same_call(*group);
          {
            InprocGroup::Touch touch(*group);
            work(*group, rank, call);
          }
          group->meet(Plane::stream, rank, call, deadline, group->timeout_seconds());
          order->finish(call.seq);
          noted.finished();
        });
  }

  /// Every rank compares every slot with rank 0's, so that all find the same mismatch.
  static void check_same_call(InprocGroup& group) {
    const CollectiveCall& first = group.slot(Plane::stream, 0).call;
    for (int rank = 1; rank < group.world_size(); ++rank) {
      const CollectiveCall& other = group.slot(Plane::stream, rank).call;
      if (matches(first, other)) continue;
      group.fail(mismatch_error(group.job_rank(rank), other, group.job_rank(0), first));
      group.leave();
    }
  }

  static void reduce_share(InprocGroup& group, int rank, const CollectiveCall& call, bool to_all) {
    std::vector<const void*> sources;
    std::vector<void*> destinations;
    for (int each = 0; each < group.world_size(); ++each) {
      const InprocSlot& slot = group.slot(Plane::stream, each);
      sources.push_back(slot.send);
      if (to_all || each == call.root) destinations.push_back(slot.recv);
    }
    const ElementRange share = share_of(call.count, rank, group.world_size());
    reduce_in_order({sources, destinations, share.begin, share.end, call.type, call.op});
  }

  static void reduce_part(InprocGroup& group, int rank, const CollectiveCall& call) {
    std::vector<const void*> sources;
    for (int each = 0; each < group.world_size(); ++each)
      sources.push_back(static_cast<const char*>(group.slot(Plane::stream, each).send) +
                        static_cast<size_t>(rank) * call.bytes());
    void* const result = group.slot(Plane::stream, rank).recv;
    reduce_in_order({sources, {&result, 1}, 0, call.count, call.type, call.op});
  }

  static void run_send(InprocGroup& group, int rank, const CollectiveCall& call, const void* data) {
    const Deadline deadline = Deadline::after_seconds(group.timeout_seconds());
    post(group, rank, call, data, deadline);
    wait_for_receiver(group, rank, call, deadline);
  }

  static void post(InprocGroup& group, int rank, const CollectiveCall& call, const void* data, Deadline deadline) {
    InprocMailbox& box = group.mailbox(rank, call.root);
    group.wait_for_peer(
        box.changed, [&] { return box.consumed.load() >= call.seq - 1; }, call.root, call, deadline);
    box.call = call;
    box.data = data;
    box.posted.store(call.seq);
    box.changed.notify();
  }

  static void wait_for_receiver(InprocGroup& group, int rank, const CollectiveCall& call, Deadline deadline) {
    InprocMailbox& box = group.mailbox(rank, call.root);
    group.wait_for_peer(
        box.changed, [&] { return box.consumed.load() >= call.seq; }, call.root, call, deadline);
  }

  static void run_recv(InprocGroup& group, int rank, const CollectiveCall& call, void* data) {
    const Deadline deadline = Deadline::after_seconds(group.timeout_seconds());
    InprocMailbox& box = group.mailbox(call.root, rank);
    group.wait_for_peer(
        box.changed, [&] { return box.posted.load() >= call.seq; }, call.root, call, deadline);
    if (!matches(call, box.call)) {
      group.fail(mismatch_error(group.job_rank(rank), call, group.job_rank(call.root), box.call));
      group.leave();
    }
    {
      InprocGroup::Touch touch(group);
      copy(data, box.data, call.bytes());
    }
    box.consumed.store(call.seq);
    box.changed.notify();
  }

  const std::string name_ = "threads";
  const std::shared_ptr<InprocGroup> group_;  // shared with queued work, which may outlive this object
  const int rank_;
  const std::shared_ptr<CallOrder> order_ = std::make_shared<CallOrder>();
  uint64_t calls_ = 0, exchanges_ = 0;  // host thread only
  std::vector<uint64_t> sent_ = std::vector<uint64_t>(static_cast<size_t>(group_->world_size()));
  std::vector<uint64_t> received_ = std::vector<uint64_t>(static_cast<size_t>(group_->world_size()));
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_inproc_communicators(int world_size, double timeout_seconds) {
  if (world_size < 1) throw Error(Cause::usage, fmt::format("a world of {} ranks", world_size), "ask for 1 or more");
  auto group = std::make_shared<InprocGroup>(world_size, timeout_seconds);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < world_size; ++rank) ranks.push_back(std::make_unique<InprocCommunicator>(group, rank));
  return ranks;
}

}  // namespace amdahl
