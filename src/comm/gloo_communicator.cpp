// Collectives between processes. Gloo transfers bytes; reductions are computed here in rank order, as in the in-process
// communicator, so that threads and processes give bitwise equal results.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "comm/collective_call.h"
#include "comm/flight_recorder.h"
#include "comm/gloo_link.h"
#include "comm/reduce_kernels.h"
#include "device/cpu_stream.h"

namespace amdahl {
namespace {

/// Up to this payload every rank sends its whole buffer to all others: one round instead of two.
constexpr size_t kOneRoundBytes = 8192;

/// State used by queued work, which may outlive the communicator.
struct GlooGroup {
  GlooGroup(RendezvousStore& store, const std::string& name, const RankGroup& group, double timeout_seconds)
      : link(store, name, group, timeout_seconds) {}
  GlooLink link;
  std::vector<char> scratch;  // used by one ordered collective at a time
};

using Work = void (*)(GlooGroup& group, const CollectiveCall& call, void* send, void* recv, Deadline deadline);

/// Reduces `range` of this rank's `data` with the corresponding elements of the other ranks, which are in scratch by
/// rank, into `result`.
void reduce_range(GlooGroup& group, const CollectiveCall& call, void* data, ElementRange range, void* result) {
  const size_t element = size_of(call.type), bytes = (range.end - range.begin) * element;
  std::vector<const void*> sources;
  for (int rank = 0; rank < group.link.world_size(); ++rank)
    sources.push_back(rank == group.link.rank() ? at(data, range.begin * element)
                                                : group.scratch.data() + static_cast<size_t>(rank) * bytes);
  reduce_in_order({sources, {&result, 1}, 0, range.end - range.begin, call.type, call.op});
}

void all_reduce_one_round(GlooGroup& group, const CollectiveCall& call, void* data, Deadline deadline) {
  GlooStep step;
  group.scratch.resize(call.bytes() * static_cast<size_t>(group.link.world_size()));
  for (int peer = 0; peer < group.link.world_size(); ++peer) {
    step.sends.push_back({peer, data, call.bytes()});
    step.recvs.push_back({peer, group.scratch.data() + static_cast<size_t>(peer) * call.bytes(), call.bytes()});
  }
  group.link.transfer(call, 0, step, deadline);
  reduce_range(group, call, data, {0, call.count}, data);
}

/// Sends every rank its share of this rank's data and receives the other ranks' data of this rank's share in scratch.
ElementRange gather_share(GlooGroup& group, const CollectiveCall& call, void* data, Deadline deadline) {
  const int world = group.link.world_size();
  const size_t element = size_of(call.type);
  const ElementRange mine = share_of(call.count, group.link.rank(), world);
  const size_t bytes = (mine.end - mine.begin) * element;
  group.scratch.resize(bytes * static_cast<size_t>(world));
  GlooStep step;
  for (int peer = 0; peer < world; ++peer) {
    const ElementRange theirs = share_of(call.count, peer, world);
    step.sends.push_back({peer, at(data, theirs.begin * element), (theirs.end - theirs.begin) * element});
    step.recvs.push_back({peer, group.scratch.data() + static_cast<size_t>(peer) * bytes, bytes});
  }
  group.link.transfer(call, 0, step, deadline);
  return mine;
}

void do_all_reduce(GlooGroup& group, const CollectiveCall& call, void* send, void* data, Deadline deadline) {
  if (send != data && call.bytes() > 0) std::memcpy(data, send, call.bytes());
  if (group.link.world_size() == 1) return;
  if (call.bytes() <= kOneRoundBytes) return all_reduce_one_round(group, call, data, deadline);
  const ElementRange mine = gather_share(group, call, data, deadline);
  const size_t element = size_of(call.type);
  reduce_range(group, call, data, mine, at(data, mine.begin * element));
  GlooStep step;
  for (int peer = 0; peer < group.link.world_size(); ++peer) {
    const ElementRange theirs = share_of(call.count, peer, group.link.world_size());
    step.sends.push_back({peer, at(data, mine.begin * element), (mine.end - mine.begin) * element});
    step.recvs.push_back({peer, at(data, theirs.begin * element), (theirs.end - theirs.begin) * element});
  }
  group.link.transfer(call, 1, step, deadline);
}

void do_reduce(GlooGroup& group, const CollectiveCall& call, void* data, void* recv, Deadline deadline) {
  const int world = group.link.world_size();
  if (world == 1) {
    if (data != recv && call.bytes() > 0) std::memcpy(recv, data, call.bytes());
    return;
  }
  const size_t element = size_of(call.type);
  const ElementRange mine = gather_share(group, call, data, deadline);
  const bool is_root = group.link.rank() == call.root;
  std::vector<char> result(is_root ? 0 : (mine.end - mine.begin) * element);  // other ranks' data must not change
  reduce_range(group, call, data, mine, is_root ? at(recv, mine.begin * element) : result.data());
  GlooStep step;
  if (!is_root) step.sends.push_back({call.root, result.data(), result.size()});
  for (int peer = 0; is_root && peer < world; ++peer) {
    const ElementRange theirs = share_of(call.count, peer, world);
    step.recvs.push_back({peer, at(recv, theirs.begin * element), (theirs.end - theirs.begin) * element});
  }
  group.link.transfer(call, 1, step, deadline);
}

void do_broadcast(GlooGroup& group, const CollectiveCall& call, void* data, void* recv, Deadline deadline) {
  GlooStep step;
  if (group.link.rank() != call.root) step.recvs.push_back({call.root, recv, call.bytes()});
  if (group.link.rank() == call.root && data != recv && call.bytes() > 0) std::memcpy(recv, data, call.bytes());
  for (int peer = 0; group.link.rank() == call.root && peer < group.link.world_size(); ++peer)
    step.sends.push_back({peer, data, call.bytes()});
  group.link.transfer(call, 0, step, deadline);
}

void do_all_gather(GlooGroup& group, const CollectiveCall& call, void* send, void* recv, Deadline deadline) {
  GlooStep step;
  for (int peer = 0; peer < group.link.world_size(); ++peer) {
    step.sends.push_back({peer, send, call.bytes()});
    step.recvs.push_back({peer, at(recv, static_cast<size_t>(peer) * call.bytes()), call.bytes()});
  }
  void* own = at(recv, static_cast<size_t>(group.link.rank()) * call.bytes());
  if (call.bytes() > 0 && own != send) std::memcpy(own, send, call.bytes());
  group.link.transfer(call, 0, step, deadline);
}

void do_reduce_scatter(GlooGroup& group, const CollectiveCall& call, void* send, void* recv, Deadline deadline) {
  const auto rank = static_cast<size_t>(group.link.rank());
  group.scratch.resize(call.bytes() * static_cast<size_t>(group.link.world_size()));
  GlooStep step;
  for (int peer = 0; peer < group.link.world_size(); ++peer) {
    step.sends.push_back({peer, at(send, static_cast<size_t>(peer) * call.bytes()), call.bytes()});
    step.recvs.push_back({peer, group.scratch.data() + static_cast<size_t>(peer) * call.bytes(), call.bytes()});
  }
  group.link.transfer(call, 0, step, deadline);
  reduce_range(group, call, send, {rank * call.count, (rank + 1) * call.count}, recv);
}

void do_scatter(GlooGroup& group, const CollectiveCall& call, void* send, void* recv, Deadline deadline) {
  GlooStep step;
  if (group.link.rank() == call.root) {
    for (int peer = 0; peer < group.link.world_size(); ++peer)
      step.sends.push_back({peer, at(send, static_cast<size_t>(peer) * call.bytes()), call.bytes()});
    const void* own = at(send, static_cast<size_t>(call.root) * call.bytes());
    if (call.bytes() > 0 && own != recv) std::memcpy(recv, own, call.bytes());
  } else {
    step.recvs.push_back({call.root, recv, call.bytes()});
  }
  group.link.transfer(call, 0, step, deadline);
}

void do_gather(GlooGroup& group, const CollectiveCall& call, void* send, void* recv, Deadline deadline) {
  GlooStep step;
  if (group.link.rank() == call.root) {
    for (int peer = 0; peer < group.link.world_size(); ++peer)
      step.recvs.push_back({peer, at(recv, static_cast<size_t>(peer) * call.bytes()), call.bytes()});
    void* own = at(recv, static_cast<size_t>(call.root) * call.bytes());
    if (call.bytes() > 0 && own != send) std::memcpy(own, send, call.bytes());
  } else {
    step.sends.push_back({call.root, send, call.bytes()});
  }
  group.link.transfer(call, 0, step, deadline);
}

void do_all_to_all(GlooGroup& group, const CollectiveCall& call, void* send, void* recv, Deadline deadline) {
  GlooStep step;
  for (int peer = 0; peer < group.link.world_size(); ++peer) {
    const size_t offset = static_cast<size_t>(peer) * call.bytes();
    step.sends.push_back({peer, at(send, offset), call.bytes()});
    step.recvs.push_back({peer, at(recv, offset), call.bytes()});
  }
  const size_t own = static_cast<size_t>(group.link.rank()) * call.bytes();
  if (call.bytes() > 0) std::memcpy(at(recv, own), at(send, own), call.bytes());
  group.link.transfer(call, 0, step, deadline);
}

class GlooCommunicator : public Communicator {
 public:
  GlooCommunicator(RendezvousStore& store, const std::string& name, const RankGroup& group, double timeout_seconds)
      : group_(std::make_shared<GlooGroup>(store, name, group, timeout_seconds)), group_name_(name) {}

  int rank() const override { return group_->link.rank(); }
  int world_size() const override { return group_->link.world_size(); }
  const std::string& backend_name() const override { return name_; }

  void all_reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    run(stream, {CollectiveKind::all_reduce, 0, count, type, op, -1}, unconst(send), recv, do_all_reduce);
  }
  void reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    run(stream, {CollectiveKind::reduce, 0, count, type, op, root}, unconst(send), recv, do_reduce);
  }
  void broadcast(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    run(stream, {CollectiveKind::broadcast, 0, count, type, ReduceOp::sum, root}, unconst(send), recv, do_broadcast);
  }
  void all_gather(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    run(stream, {CollectiveKind::all_gather, 0, count, type, ReduceOp::sum, -1}, unconst(send), recv, do_all_gather);
  }
  void reduce_scatter(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    run(stream, {CollectiveKind::reduce_scatter, 0, count, type, op, -1}, unconst(send), recv, do_reduce_scatter);
  }
  void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    run(stream, {CollectiveKind::scatter, 0, count, type, ReduceOp::sum, root}, unconst(send), recv, do_scatter);
  }
  void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    run(stream, {CollectiveKind::gather, 0, count, type, ReduceOp::sum, root}, unconst(send), recv, do_gather);
  }
  void all_to_all(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    run(stream, {CollectiveKind::all_to_all, 0, count, type, ReduceOp::sum, -1}, unconst(send), recv, do_all_to_all);
  }

  void send(const void* data, size_t count, DType type, int peer, Stream& stream) override {
    check_peer(peer);
    pass(stream, {CollectiveKind::send, ++sent_[static_cast<size_t>(peer)], count, type, ReduceOp::sum, peer},
         unconst(data));
  }
  void recv(void* data, size_t count, DType type, int peer, Stream& stream) override {
    check_peer(peer);
    pass(stream, {CollectiveKind::recv, ++received_[static_cast<size_t>(peer)], count, type, ReduceOp::sum, peer},
         data);
  }

  void send_recv(const void* data, int to, void* received, int from, size_t count, DType type,
                 Stream& stream) override {
    check_peer(to);
    check_peer(from);
    const CollectiveCall out{CollectiveKind::send, ++sent_[static_cast<size_t>(to)], count, type, ReduceOp::sum, to};
    const CollectiveCall in{
        CollectiveKind::recv, ++received_[static_cast<size_t>(from)], count, type, ReduceOp::sum, from};
    as_cpu(stream).enqueue([group = group_, out, in, data, received, noted = count_call(out)] {
      group->link.throw_if_aborted();
      group->link.transfer_all({{out, 0, {.sends = {{out.root, unconst(data), out.bytes()}}, .recvs = {}}},
                                {in, 0, {.sends = {}, .recvs = {{in.root, received, in.bytes()}}}}},
                               Deadline::after_seconds(group->link.timeout_seconds()));
      noted.finished();
    });
  }

  std::vector<std::string> exchange(const std::string& message, Deadline deadline) override {
    group_->link.throw_if_aborted();
    const FlightNote noted = note({CollectiveKind::exchange, ++exchanges_, 0, DType::u8, ReduceOp::sum, -1});
    std::vector<std::string> messages = group_->link.store().exchange(fmt::format("{}/{}", group_name_, exchanges_),
                                                                      group_->link.group(), message, deadline);
    noted.finished();
    return messages;
  }

  std::unique_ptr<Communicator> make_subgroup(const RankGroup& group, const std::string& name, Deadline) override {
    return make_gloo_communicator(group_->link.store(), fmt::format("{}/{}", group_name_, name),
                                  group.within(group_->link.group()), group_->link.timeout_seconds());
  }

  void abort(const Error& cause) noexcept override {
    group_->link.store().report_failure(cause);
    group_->link.abort(cause);
  }
  void throw_if_failed() override { group_->link.throw_if_aborted(); }
  void set_timeout(double seconds) override { group_->link.set_timeout(seconds); }

 private:
  void check_peer(int peer) const {
    check_rank(peer, world_size(), "peer");
    if (peer == rank()) throw Error(Cause::usage, fmt::format("rank {} cannot send to itself", peer));
  }

  void run(Stream& stream, CollectiveCall call, void* send, void* recv, Work work) {
    call.seq = ++calls_;
    as_cpu(stream).enqueue([group = group_, call, send, recv, work, noted = count_call(call)] {
      const Deadline deadline = Deadline::after_seconds(group->link.timeout_seconds());
      group->link.await_turn(call, deadline);
      work(*group, call, send, recv, deadline);
      group->link.finish_turn(call);
      noted.finished();
    });
  }

  /// send and recv are numbered per pair and not ordered with the collectives.
  void pass(Stream& stream, const CollectiveCall& call, void* data) {
    as_cpu(stream).enqueue([group = group_, call, data, noted = count_call(call)] {
      group->link.throw_if_aborted();
      GlooStep step;
      (call.kind == CollectiveKind::send ? step.sends : step.recvs).push_back({call.root, data, call.bytes()});
      group->link.transfer(call, 0, step, Deadline::after_seconds(group->link.timeout_seconds()));
      noted.finished();
    });
  }

  const std::string name_ = "gloo";
  const std::shared_ptr<GlooGroup> group_;
  const std::string group_name_;
  uint64_t calls_ = 0, exchanges_ = 0;  // host thread only
  std::vector<uint64_t> sent_ = std::vector<uint64_t>(static_cast<size_t>(group_->link.world_size()));
  std::vector<uint64_t> received_ = std::vector<uint64_t>(static_cast<size_t>(group_->link.world_size()));
};

}  // namespace

std::unique_ptr<Communicator> make_gloo_communicator(RendezvousStore& store, const std::string& name,
                                                     const RankGroup& group, double timeout_seconds) {
  check_rank(group.rank, group.size(), "this process's rank");
  return std::make_unique<GlooCommunicator>(store, name, group, timeout_seconds);
}

Availability gloo_availability() { return {true, {}, {}}; }

}  // namespace amdahl
