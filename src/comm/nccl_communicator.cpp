// Collectives over NCCL. Each rank has one NCCL communicator, which its host thread uses.
#include <fmt/format.h>

#include <future>
#include <utility>

#include "comm/collective_call.h"
#include "comm/flight_recorder.h"
#include "comm/nccl_buffer.h"

namespace amdahl {
namespace {

ncclDataType_t nccl_type(DType type) {
  switch (type) {
    case DType::f32:
      return ncclFloat32;
    case DType::f64:
      return ncclFloat64;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
    case DType::u8:
      return ncclUint8;
    case DType::u32:
      return ncclUint32;
  }
  return ncclUint8;
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::prod:
      return ncclProd;
    case ReduceOp::avg:
      return ncclAvg;
  }
  return ncclSum;
}

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(int rank, int world_size, std::shared_ptr<NcclRank> nccl, std::shared_ptr<ControlPlane> plane,
                   Device& device)
      : rank_(rank), world_size_(world_size), nccl_(std::move(nccl)), plane_(std::move(plane)), device_(device) {
    watches_of(device).add(nccl_);
  }
  ~NcclCommunicator() override { nccl_->finish(); }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  const std::string& backend_name() const override { return name_; }

  bool shares_address_space() const override { return plane_->one_process(); }

  void all_reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    run("ncclAllReduce", {CollectiveKind::all_reduce, 0, count, type, op, -1}, stream,
        [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
          return api.all_reduce(send, recv, count, nccl_type(type), nccl_op(op), comm, queue);
        });
  }
  void reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, int root, Stream& stream) override {
    check_rank(root, world_size_, "root");
    run("ncclReduce", {CollectiveKind::reduce, 0, count, type, op, root}, stream,
        [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
          return api.reduce(send, recv, count, nccl_type(type), nccl_op(op), root, comm, queue);
        });
  }
  void broadcast(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size_, "root");
    run("ncclBroadcast", {CollectiveKind::broadcast, 0, count, type, ReduceOp::sum, root}, stream,
        [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
          return api.broadcast(send, recv, count, nccl_type(type), root, comm, queue);
        });
  }
  void all_gather(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    run("ncclAllGather", {CollectiveKind::all_gather, 0, count, type, ReduceOp::sum, -1}, stream,
        [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
          return api.all_gather(send, recv, count, nccl_type(type), comm, queue);
        });
  }
  void reduce_scatter(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    run("ncclReduceScatter", {CollectiveKind::reduce_scatter, 0, count, type, op, -1}, stream,
        [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
          return api.reduce_scatter(send, recv, count, nccl_type(type), nccl_op(op), comm, queue);
        });
  }
  void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size_, "root");
    if (nccl_->api().scatter)
      return run("ncclScatter", {CollectiveKind::scatter, 0, count, type, ReduceOp::sum, root}, stream,
                 [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
                   return api.scatter(send, recv, count, nccl_type(type), root, comm, queue);
                 });
    pairwise("scatter by ncclSend and ncclRecv", {CollectiveKind::scatter, 0, count, type, ReduceOp::sum, root},
             {send, recv}, stream, [&](int peer) {
               return Parts{rank_ == root ? peer : -1, peer == root ? 0 : -1};
             });
  }
  void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size_, "root");
    if (nccl_->api().gather)
      return run("ncclGather", {CollectiveKind::gather, 0, count, type, ReduceOp::sum, root}, stream,
                 [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
                   return api.gather(send, recv, count, nccl_type(type), root, comm, queue);
                 });
    pairwise("gather by ncclSend and ncclRecv", {CollectiveKind::gather, 0, count, type, ReduceOp::sum, root},
             {send, recv}, stream, [&](int peer) {
               return Parts{peer == root ? 0 : -1, rank_ == root ? peer : -1};
             });
  }
  void all_to_all(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    if (nccl_->api().all_to_all)
      return run("ncclAlltoAll", {CollectiveKind::all_to_all, 0, count, type, ReduceOp::sum, -1}, stream,
                 [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
                   return api.all_to_all(send, recv, count, nccl_type(type), comm, queue);
                 });
    pairwise("all-to-all by ncclSend and ncclRecv", {CollectiveKind::all_to_all, 0, count, type, ReduceOp::sum, -1},
             {send, recv}, stream, [](int peer) {
               return Parts{peer, peer};
             });
  }
  void send(const void* data, size_t count, DType type, int peer, Stream& stream) override {
    check_peer(peer);
    run("ncclSend", {CollectiveKind::send, 0, count, type, ReduceOp::sum, peer}, stream,
        [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
          return api.send(data, count, nccl_type(type), peer, comm, queue);
        });
  }
  void recv(void* data, size_t count, DType type, int peer, Stream& stream) override {
    check_peer(peer);
    run("ncclRecv", {CollectiveKind::recv, 0, count, type, ReduceOp::sum, peer}, stream,
        [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
          return api.recv(data, count, nccl_type(type), peer, comm, queue);
        });
  }

  void send_recv(const void* data, int to, void* received, int from, size_t count, DType type,
                 Stream& stream) override {
    check_peer(to);
    check_peer(from);
    pairwise("ncclSend and ncclRecv", {CollectiveKind::send, 0, count, type, ReduceOp::sum, to}, {data, received},
             stream, [&](int peer) {
               return Parts{peer == to ? 0 : -1, peer == from ? 0 : -1};
             });
  }

  std::unique_ptr<Buffer> allocate_registered(const RegisteredMemory& wanted) override {
    return make_nccl_buffer(nccl_, *plane_, rank_, wanted);
  }

  std::vector<std::string> exchange(const std::string& message, Deadline deadline) override {
    nccl_->rethrow();
    const FlightNote noted = note({CollectiveKind::exchange, ++exchanges_, 0, DType::u8, ReduceOp::sum, -1});
    std::vector<std::string> messages = plane_->exchange(rank_, message, deadline);
    noted.finished();
    return messages;
  }
  std::unique_ptr<Communicator> make_subgroup(const RankGroup& group, const std::string& name,
                                              Deadline deadline) override {
    device_.bind_thread();
    NcclPart part = plane_->part(group, name, deadline);
    return std::make_unique<NcclCommunicator>(group.rank, group.size(), std::move(part.rank), std::move(part.plane),
                                              device_);
  }
  void abort(const Error& cause) noexcept override { plane_->abort(cause); }

 private:
  void check_peer(int peer) const {
    check_rank(peer, world_size_, "peer");
    if (peer == rank_) throw Error(Cause::usage, fmt::format("rank {} cannot send to itself", peer));
  }
  struct Exchange {
    const void* send;
    void* recv;
  };
  /// The parts of `send` for a peer and of `recv` from it, in units of `count`; -1: none.
  struct Parts {
    int sent, received;
  };
  template <class PartsOf>
  void pairwise(const char* name, const CollectiveCall& call, const Exchange& e, Stream& stream,
                const PartsOf& parts_of) {
    run(name, call, stream, [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
      const size_t bytes = call.bytes();
      api.group_start();
      ncclResult_t result = ncclSuccess;
      for (int peer = 0; peer < world_size_ && result == ncclSuccess; ++peer) {
        const Parts parts = parts_of(peer);
        if (parts.sent >= 0)
          result = api.send(static_cast<const char*>(e.send) + static_cast<size_t>(parts.sent) * bytes, call.count,
                            nccl_type(call.type), peer, comm, queue);
        if (parts.received >= 0 && result == ncclSuccess)
          result = api.recv(static_cast<char*>(e.recv) + static_cast<size_t>(parts.received) * bytes, call.count,
                            nccl_type(call.type), peer, comm, queue);
      }
      const ncclResult_t ended = api.group_end();  // also after a failed call, to leave the group
      return result == ncclSuccess ? ended : result;
    });
  }
  template <class Work>
  void run(const char* name, CollectiveCall call, Stream& stream, const Work& work) {
    stream.device().bind_thread();
    call.seq = ++calls_;
    count_call(call);  // the host does not know when it ends
    nccl_->call(name, [&](ncclComm_t comm) { return work(nccl_->api(), comm, as_cuda(stream)); });
  }

  int rank_, world_size_;
  std::shared_ptr<NcclRank> nccl_;
  std::shared_ptr<ControlPlane> plane_;
  Device& device_;
  std::string name_ = "nccl";
  uint64_t calls_ = 0, exchanges_ = 0;  // host thread only
};

std::shared_ptr<const NcclApi> open_api() {
  Availability why;
  auto api = NcclApi::open(why);
  if (!api) throw Error(Cause::environment_missing, why.reason, why.remedy);
  return api;
}

ncclUniqueId unique_id(const NcclApi& api) {
  ncclUniqueId id{};
  api.check(api.get_unique_id(&id), "ncclGetUniqueId", nullptr);
  return id;
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(const std::vector<Device*>& devices,
                                                                   double timeout_seconds) {
  const auto api = open_api();
  const int world_size = static_cast<int>(devices.size());
  const Deadline deadline = Deadline::after_seconds(timeout_seconds);
  const ncclUniqueId id = unique_id(*api);
  auto plane = std::make_shared<ThreadPlane>(std::make_shared<InprocGroup>(world_size, timeout_seconds));
  for (Device* device : devices) plane->ranks.push_back(std::make_shared<NcclRank>(api, device->spec().index, nullptr));
  std::vector<std::future<ncclResult_t>> started;  // concurrently, because each start waits for the others
  for (int rank = 0; rank < world_size; ++rank)
    started.push_back(plane->ranks[static_cast<size_t>(rank)]->start(id, rank, world_size));
  for (int rank = 0; rank < world_size; ++rank) finish_start(*api, started[static_cast<size_t>(rank)], rank, deadline);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < world_size; ++rank)
    communicators.push_back(std::make_unique<NcclCommunicator>(
        rank, world_size, plane->ranks[static_cast<size_t>(rank)], plane, *devices[static_cast<size_t>(rank)]));
  return communicators;
}

std::unique_ptr<Communicator> make_nccl_communicator(RendezvousStore& store, const std::string& name,
                                                     const RankGroup& group, Device& device, double timeout_seconds) {
  auto nccl = std::make_shared<NcclRank>(open_api(), device.spec().index, &store);
  auto plane = std::make_shared<ProcessPlane>(store, name, group, nccl);
  start_nccl(*nccl, *plane, group, Deadline::after_seconds(timeout_seconds));
  return std::make_unique<NcclCommunicator>(group.rank, group.size(), std::move(nccl), std::move(plane), device);
}

}  // namespace amdahl
