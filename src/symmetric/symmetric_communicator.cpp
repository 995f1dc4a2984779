// A communicator on CPU devices whose collectives and messages run in symmetric memory.
#include <fmt/format.h>

#include <utility>

#include "comm/flight_recorder.h"
#include "comm/world.h"
#include "device/cpu_stream.h"
#include "symmetric/cpu_channels.h"
#include "symmetric/cpu_collectives.h"
#include "symmetric/symmetric_collectives.h"

namespace amdahl {
namespace {

/// State used by queued work, which may outlive the communicator.
struct SymmetricGroup {
  SymmetricGroup(SymmetricMemory memory, std::shared_ptr<Communicator> control_, RankGroup job,
                 const SymmetricOptions& options)
      : control(std::move(control_)),
        rounds(std::move(memory), control, std::move(job), options.first_epoch),
        collectives(rounds, options),
        channels(rounds) {}

  const std::shared_ptr<Communicator> control;
  CpuRounds rounds;
  CpuCollectives collectives;
  CpuChannels channels;
};

class SymmetricCommunicator final : public Communicator {
 public:
  SymmetricCommunicator(Device& device, std::shared_ptr<SymmetricGroup> group, const SymmetricOptions& options)
      : device_(device),
        group_(std::move(group)),
        options_(options),
        name_(options.all_reduce == SymmetricAlgorithm::automatic
                  ? "symmetric"
                  : fmt::format("symmetric {}", to_string(options.all_reduce))) {}

  int rank() const override { return group_->rounds.rank(); }
  int world_size() const override { return group_->rounds.size(); }
  const std::string& backend_name() const override { return name_; }
  bool shares_address_space() const override { return group_->control->shares_address_space(); }

  void all_reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    run(stream, {CollectiveKind::all_reduce, 0, count, type, op, -1}, send, recv);
  }
  void reduce(const void* send, void* recv, size_t count, DType type, ReduceOp op, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    run(stream, {CollectiveKind::reduce, 0, count, type, op, root}, send, recv);
  }
  void broadcast(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    run(stream, {CollectiveKind::broadcast, 0, count, type, ReduceOp::sum, root}, send, recv);
  }
  void all_gather(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    run(stream, {CollectiveKind::all_gather, 0, count, type, ReduceOp::sum, -1}, send, recv);
  }
  void reduce_scatter(const void* send, void* recv, size_t count, DType type, ReduceOp op, Stream& stream) override {
    run(stream, {CollectiveKind::reduce_scatter, 0, count, type, op, -1}, send, recv);
  }
  void scatter(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    run(stream, {CollectiveKind::scatter, 0, count, type, ReduceOp::sum, root}, send, recv);
  }
  void gather(const void* send, void* recv, size_t count, DType type, int root, Stream& stream) override {
    check_rank(root, world_size(), "root");
    run(stream, {CollectiveKind::gather, 0, count, type, ReduceOp::sum, root}, send, recv);
  }
  void all_to_all(const void* send, void* recv, size_t count, DType type, Stream& stream) override {
    run(stream, {CollectiveKind::all_to_all, 0, count, type, ReduceOp::sum, -1}, send, recv);
  }

  void send(const void* data, size_t count, DType type, int peer, Stream& stream) override {
    const CollectiveCall call = paired(CollectiveKind::send, count, type, peer);
    as_cpu(stream).enqueue([group = group_, call, data, noted = count_call(call)] {
      group->channels.send(call, data);
      noted.finished();
    });
  }
  void recv(void* data, size_t count, DType type, int peer, Stream& stream) override {
    const CollectiveCall call = paired(CollectiveKind::recv, count, type, peer);
    as_cpu(stream).enqueue([group = group_, call, data, noted = count_call(call)] {
      group->channels.receive(call, data);
      noted.finished();
    });
  }
  void send_recv(const void* data, int to, void* received, int from, size_t count, DType type,
                 Stream& stream) override {
    const CollectiveCall out = paired(CollectiveKind::send, count, type, to);
    const CollectiveCall in = paired(CollectiveKind::recv, count, type, from);
    as_cpu(stream).enqueue([group = group_, out, in, data, received, noted = count_call(out)] {
      group->channels.send_receive(out, data, in, received);
      noted.finished();
    });
  }

  std::vector<std::string> exchange(const std::string& message, Deadline deadline) override {
    const FlightNote noted = note({CollectiveKind::exchange, ++exchanges_, 0, DType::u8, ReduceOp::sum, -1});
    std::vector<std::string> messages = group_->control->exchange(message, deadline);
    noted.finished();
    return messages;
  }

  std::unique_ptr<Communicator> make_subgroup(const RankGroup& group, const std::string& name,
                                              Deadline deadline) override {
    std::unique_ptr<Communicator> control = group_->control->subgroup(group, name, deadline);
    return make_symmetric_communicator(device_, std::move(control), group.within(group_->rounds.job()),
                                       group_->rounds.timeout_seconds(), options_);
  }

  void abort(const Error& cause) noexcept override {
    group_->control->abort(cause);
    group_->rounds.abort();
  }
  void throw_if_failed() override { group_->rounds.throw_if_failed(); }
  void set_timeout(double seconds) override {
    group_->control->set_timeout(seconds);
    group_->rounds.set_timeout(seconds);
  }

 private:
  CollectiveCall paired(CollectiveKind kind, size_t count, DType type, int peer) {
    check_rank(peer, world_size(), "peer");
    if (peer == rank()) throw Error(Cause::usage, fmt::format("rank {} cannot send to itself", peer));
    auto& number = (kind == CollectiveKind::send ? sent_ : received_)[static_cast<size_t>(peer)];
    return {kind, ++number, count, type, ReduceOp::sum, peer};
  }

  void run(Stream& stream, CollectiveCall call, const void* send, void* recv) {
    call.seq = ++calls_;
    as_cpu(stream).enqueue([group = group_, call, send, recv, noted = count_call(call)] {
      group->collectives.run(call, send, recv);
      noted.finished();
    });
  }

  Device& device_;
  const std::shared_ptr<SymmetricGroup> group_;
  const SymmetricOptions options_;
  const std::string name_;
  uint64_t calls_ = 0, exchanges_ = 0;  // host thread only
  std::vector<uint64_t> sent_ = std::vector<uint64_t>(static_cast<size_t>(group_->rounds.size()));
  std::vector<uint64_t> received_ = std::vector<uint64_t>(static_cast<size_t>(group_->rounds.size()));
};

std::string text_of(const SymmetricOptions& options) {
  return fmt::format("symmetric collectives: {}, {} and {} bytes, from round {}", to_string(options.all_reduce),
                     options.flagged_bytes, options.one_shot_bytes, options.first_epoch);
}

}  // namespace

std::string_view to_string(SymmetricAlgorithm algorithm) {
  switch (algorithm) {
    case SymmetricAlgorithm::automatic:
      return "auto";
    case SymmetricAlgorithm::flagged:
      return "ll";
    case SymmetricAlgorithm::one_shot:
      return "one-shot";
    case SymmetricAlgorithm::two_shot:
      return "two-shot";
  }
  return "?";
}

SymmetricAlgorithm choose(const SymmetricOptions& options, size_t bytes) {
  if (options.all_reduce != SymmetricAlgorithm::automatic) return options.all_reduce;
  if (bytes <= options.flagged_bytes) return SymmetricAlgorithm::flagged;
  return bytes <= options.one_shot_bytes ? SymmetricAlgorithm::one_shot : SymmetricAlgorithm::two_shot;
}

std::vector<std::unique_ptr<Communicator>> make_symmetric_communicators(
    const std::vector<Device*>& devices, std::vector<std::unique_ptr<Communicator>> controls, double timeout_seconds,
    const SymmetricOptions& options) {
  const auto size = static_cast<int>(devices.size());
  check_team(Team::first(size, 0));
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (Device* device : devices)
    buffers.push_back(
        allocate_zeroed(*device, CollectiveLayout(size).bytes(), Deadline::after_seconds(timeout_seconds)));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    const auto r = static_cast<size_t>(rank);
    communicators.push_back(std::make_unique<SymmetricCommunicator>(
        *devices[r],
        std::make_shared<SymmetricGroup>(memory_of_buffers(devices, buffers, rank, timeout_seconds),
                                         std::move(controls[r]), RankGroup::first(size, rank), options),
        options));
  }
  return communicators;
}

std::unique_ptr<Communicator> make_symmetric_communicator(Device& device, std::unique_ptr<Communicator> control,
                                                          const RankGroup& job, double timeout_seconds,
                                                          const SymmetricOptions& options) {
  const Deadline deadline = Deadline::after_seconds(timeout_seconds);
  const std::vector<std::string> all = control->exchange(text_of(options), deadline);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != all.front())
      throw Error(Cause::collective_mismatch,
                  fmt::format("rank 0 has {}; rank {} has {}", all.front(), rank, all[rank]),
                  "the same options on every rank", job.job_rank(static_cast<int>(rank)));
  SymmetricMemory memory =
      make_symmetric_memory(device, *control, CollectiveLayout(control->world_size()).bytes(), timeout_seconds);
  Communicator& waits = *control;
  auto group = std::make_shared<SymmetricGroup>(std::move(memory), std::move(control), job, options);
  waits.barrier(deadline);  // no rank writes before all have prepared their lines
  return std::make_unique<SymmetricCommunicator>(device, std::move(group), options);
}

}  // namespace amdahl
