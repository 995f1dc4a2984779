// Collectives by NCCL. Each rank has one NCCL communicator that its own host thread drives.
#include <fmt/format.h>

#include <future>
#include <utility>

#include "comm/collective_call.h"
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
      : rank_(rank), world_size_(world_size), nccl_(std::move(nccl)), plane_(std::move(plane)) {
    watches_of(device).add(nccl_);
  }
  ~NcclCommunicator() override { nccl_->finish(); }

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  const std::string& backend_name() const override { return name_; }

  bool shares_address_space() const override { return plane_->one_process(); }

  void all_reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    run("ncclAllReduce", count, type, stream, [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
      return api.all_reduce(send, recv, count, nccl_type(type), nccl_op(op), comm, queue);
    });
  }
  void reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, int root, Stream& stream) override {
    check_rank(root, world_size_, "root");
    run("ncclReduce", count, type, stream, [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
      return api.reduce(send, recv, count, nccl_type(type), nccl_op(op), root, comm, queue);
    });
  }
  void broadcast(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size_, "root");
    run("ncclBroadcast", count, type, stream, [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
      return api.broadcast(send, recv, count, nccl_type(type), root, comm, queue);
    });
  }
  void all_gather(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    run("ncclAllGather", count, type, stream, [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
      return api.all_gather(send, recv, count, nccl_type(type), comm, queue);
    });
  }
  void reduce_scatter(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    run("ncclReduceScatter", count, type, stream, [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
      return api.reduce_scatter(send, recv, count, nccl_type(type), nccl_op(op), comm, queue);
    });
  }
  void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size_, "root");
    if (nccl_->api().scatter)
      return run("ncclScatter", count, type, stream, [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
        return api.scatter(send, recv, count, nccl_type(type), root, comm, queue);
      });
    pairwise("scatter by ncclSend and ncclRecv", {send, recv, count, type}, stream, [&](int peer) {
      return Parts{rank_ == root ? peer : -1, peer == root ? 0 : -1};
    });
  }
  void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size_, "root");
    if (nccl_->api().gather)
      return run("ncclGather", count, type, stream, [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
        return api.gather(send, recv, count, nccl_type(type), root, comm, queue);
      });
    pairwise("gather by ncclSend and ncclRecv", {send, recv, count, type}, stream, [&](int peer) {
      return Parts{peer == root ? 0 : -1, rank_ == root ? peer : -1};
    });
  }
  void all_to_all(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    if (nccl_->api().all_to_all)
      return run("ncclAlltoAll", count, type, stream, [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
        return api.all_to_all(send, recv, count, nccl_type(type), comm, queue);
      });
    pairwise("all-to-all by ncclSend and ncclRecv", {send, recv, count, type}, stream, [](int peer) {
      return Parts{peer, peer};
    });
  }
  void send(const void* data, size_t count, DType type, int peer, Stream& stream) override {
    check_peer(peer);
    run("ncclSend", count, type, stream, [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
      return api.send(data, count, nccl_type(type), peer, comm, queue);
    });
  }
  void recv(void* data, size_t count, DType type, int peer, Stream& stream) override {
    check_peer(peer);
    run("ncclRecv", count, type, stream, [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
      return api.recv(data, count, nccl_type(type), peer, comm, queue);
    });
  }

  void send_recv(const void* data, int to, void* received, int from, size_t count, DType type,
                 Stream& stream) override {
    check_peer(to);
    check_peer(from);
    pairwise("ncclSend and ncclRecv", {data, received, count, type}, stream, [&](int peer) {
      return Parts{peer == to ? 0 : -1, peer == from ? 0 : -1};
    });
  }

  std::unique_ptr<Buffer> allocate_registered(const RegisteredMemory& wanted) override {
    return make_nccl_buffer(nccl_, *plane_, rank_, wanted);
  }

  std::vector<std::string> exchange(const std::string& message, Deadline deadline) override {
    nccl_->rethrow();
    return plane_->exchange(rank_, message, deadline);
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
    size_t count;
    DType type;
  };
  /// Which part of `send` goes to a peer and which of `recv` comes from it, in units of `count`; -1: none.
  struct Parts {
    int sent, received;
  };
  template <class PartsOf>
  void pairwise(const char* name, const Exchange& e, Stream& stream, const PartsOf& parts_of) {
    run(name, e.count, e.type, stream, [&](const NcclApi& api, ncclComm_t comm, cudaStream_t queue) {
      const size_t bytes = e.count * size_of(e.type);
      api.group_start();
      ncclResult_t result = ncclSuccess;
      for (int peer = 0; peer < world_size_ && result == ncclSuccess; ++peer) {
        const Parts parts = parts_of(peer);
        if (parts.sent >= 0)
          result = api.send(static_cast<const char*>(e.send) + static_cast<size_t>(parts.sent) * bytes, e.count,
                            nccl_type(e.type), peer, comm, queue);
        if (parts.received >= 0 && result == ncclSuccess)
          result = api.recv(static_cast<char*>(e.recv) + static_cast<size_t>(parts.received) * bytes, e.count,
                            nccl_type(e.type), peer, comm, queue);
      }
      const ncclResult_t ended = api.group_end();  // also after a failed call, or the thread stays in the group
      return result == ncclSuccess ? ended : result;
    });
  }
  template <class Work>
  void run(const char* name, size_t count, DType type, Stream& stream, const Work& work) {
    stream.device().bind_thread();
    count_traffic(count * size_of(type));
    nccl_->call(name, [&](ncclComm_t comm) { return work(nccl_->api(), comm, as_cuda(stream)); });
  }

  int rank_, world_size_;
  std::shared_ptr<NcclRank> nccl_;
  std::shared_ptr<ControlPlane> plane_;
  std::string name_ = "nccl";
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

void finish_start(const NcclApi& api, std::future<ncclResult_t>& started, int rank, Deadline deadline) {
  if (started.wait_until(deadline.time()) != std::future_status::ready)
    throw Error(Cause::rank_hung, "NCCL did not start before the deadline: not every rank came to it",
                "look for the rank that is missing; NCCL_DEBUG=INFO shows who came", rank);
  api.check(started.get(), "ncclCommInitRankConfig", nullptr);
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(const std::vector<Device*>& devices,
                                                                   double timeout_seconds) {
  const auto api = open_api();
  const int world_size = static_cast<int>(devices.size());
  const Deadline deadline = Deadline::after_seconds(timeout_seconds);
  const ncclUniqueId id = unique_id(*api);
  auto plane = std::make_shared<ThreadPlane>(world_size, timeout_seconds);
  for (Device* device : devices) plane->ranks.push_back(std::make_shared<NcclRank>(api, device->spec().index, nullptr));
  std::vector<std::future<ncclResult_t>> started;  // all at once: each start waits for the others
  for (int rank = 0; rank < world_size; ++rank)
    started.push_back(plane->ranks[static_cast<size_t>(rank)]->start(id, rank, world_size));
  for (int rank = 0; rank < world_size; ++rank) finish_start(*api, started[static_cast<size_t>(rank)], rank, deadline);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < world_size; ++rank)
    communicators.push_back(std::make_unique<NcclCommunicator>(
        rank, world_size, plane->ranks[static_cast<size_t>(rank)], plane, *devices[static_cast<size_t>(rank)]));
  return communicators;
}

std::unique_ptr<Communicator> make_nccl_communicator(RendezvousStore& store, const std::string& name, int rank,
                                                     int world_size, Device& device, double timeout_seconds) {
  const auto api = open_api();
  const Deadline deadline = Deadline::after_seconds(timeout_seconds);
  const std::string key = fmt::format("nccl/{}/id", name);
  ncclUniqueId id{};
  if (rank == 0) {
    id = unique_id(*api);
    store.set(key, std::string(id.internal, sizeof id.internal));
  } else {
    const std::string text = store.get(key, deadline);
    if (text.size() != sizeof id.internal)
      throw Error(Cause::internal, "the NCCL id of group " + name + " has a wrong size");
    text.copy(id.internal, sizeof id.internal);
  }
  auto nccl = std::make_shared<NcclRank>(api, device.spec().index, &store);
  auto started = nccl->start(id, rank, world_size);
  finish_start(*api, started, rank, deadline);
  auto plane = std::make_shared<ProcessPlane>(store, name, world_size, nccl);
  return std::make_unique<NcclCommunicator>(rank, world_size, std::move(nccl), std::move(plane), device);
}

}  // namespace amdahl
