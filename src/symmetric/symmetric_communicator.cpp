// A communicator whose collectives and messages run in symmetric memory.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/flight_recorder.h"
#include "comm/world.h"
#include "symmetric/symmetric_executor.h"

namespace amdahl {
namespace {

bool on_gpu(const Device& device) { return device.backend() == BackendKind::cuda; }

/// `options` of a team of so many ranks, whose smallest GPU has `sm_count` multiprocessors.
SymmetricOptions for_team(SymmetricOptions options, int ranks, int sm_count) {
  const int most = most_collective_blocks(sm_count);
  options.blocks = options.blocks == 0 ? most : std::min(options.blocks, most);
  if (ranks > 2) options.one_shot_bytes = std::min(options.one_shot_bytes, options.one_shot_bytes_of_many);
  return options;
}

size_t region_bytes(const Device& device, int world) {
  return on_gpu(device) ? cuda_collective_bytes(world) : cpu_collective_bytes(world);
}

class SymmetricCommunicator final : public Communicator {
 public:
  SymmetricCommunicator(Device& device, std::unique_ptr<SymmetricExecutor> executor, const SymmetricOptions& options)
      : device_(device),
        executor_(std::move(executor)),
        options_(options),
        name_(options.all_reduce == SymmetricAlgorithm::automatic
                  ? "symmetric"
                  : fmt::format("symmetric {}", to_string(options.all_reduce))) {}

  int rank() const override { return executor_->job().rank; }
  int world_size() const override { return executor_->job().size(); }
  const std::string& backend_name() const override { return name_; }
  bool shares_address_space() const override { return executor_->control().shares_address_space(); }
  int64_t device_bytes(int ranks) const override { return static_cast<int64_t>(region_bytes(device_, ranks)); }

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
    executor_->send(stream, call, data, count_call(call));
  }
  void recv(void* data, size_t count, DType type, int peer, Stream& stream) override {
    const CollectiveCall call = paired(CollectiveKind::recv, count, type, peer);
    executor_->receive(stream, call, data, count_call(call));
  }
  void send_recv(const void* data, int to, void* received, int from, size_t count, DType type,
                 Stream& stream) override {
    const CollectiveCall out = paired(CollectiveKind::send, count, type, to);
    const CollectiveCall in = paired(CollectiveKind::recv, count, type, from);
    executor_->send_receive(stream, out, data, in, received, count_call(out));
  }

  std::vector<std::string> exchange(const std::string& message, Deadline deadline) override {
    const FlightNote noted = note({CollectiveKind::exchange, ++exchanges_, 0, DType::u8, ReduceOp::sum, -1});
    std::vector<std::string> messages = executor_->control().exchange(message, deadline);
    noted.finished();
    return messages;
  }

  std::unique_ptr<Communicator> make_subgroup(const RankGroup& group, const std::string& name,
                                              Deadline deadline) override {
    std::unique_ptr<Communicator> control = executor_->control().subgroup(group, name, deadline);
    return make_symmetric_communicator(device_, std::move(control), group.within(executor_->job()),
                                       executor_->timeout_seconds(), options_);
  }

  void abort(const Error& cause) noexcept override {
    executor_->control().abort(cause);
    executor_->abort();
  }
  void throw_if_failed() override { executor_->throw_if_failed(); }
  void set_timeout(double seconds) override { executor_->set_timeout(seconds); }

 private:
  CollectiveCall paired(CollectiveKind kind, size_t count, DType type, int peer) {
    check_rank(peer, world_size(), "peer");
    if (peer == rank()) throw Error(Cause::usage, fmt::format("rank {} cannot send to itself", peer));
    auto& number = (kind == CollectiveKind::send ? sent_ : received_)[static_cast<size_t>(peer)];
    return {kind, ++number, count, type, ReduceOp::sum, peer};
  }

  void run(Stream& stream, CollectiveCall call, const void* send, void* recv) {
    call.seq = ++calls_;
    executor_->run(stream, call, send, recv, count_call(call));
  }

  Device& device_;
  const std::unique_ptr<SymmetricExecutor> executor_;
  const SymmetricOptions options_;
  const std::string name_;
  uint64_t calls_ = 0, exchanges_ = 0;  // host thread only
  std::vector<uint64_t> sent_ = std::vector<uint64_t>(static_cast<size_t>(executor_->job().size()));
  std::vector<uint64_t> received_ = std::vector<uint64_t>(static_cast<size_t>(executor_->job().size()));
};

std::string text_of(const SymmetricOptions& options) {
  return fmt::format("symmetric collectives: {}, {}, {} and {} bytes, of many {}, from round {}, {} blocks{}",
                     to_string(options.all_reduce), options.flagged_bytes, options.line_bytes, options.one_shot_bytes,
                     options.one_shot_bytes_of_many, options.first_epoch, options.blocks,
                     options.direct ? ", direct" : "");
}

/// Error{usage} for an algorithm that ranks of this kind do not have.
void check_algorithm(const Device& device, const SymmetricOptions& options) {
  if (options.all_reduce == SymmetricAlgorithm::lines && !on_gpu(device))
    throw Error(Cause::usage, "ll128 between CPU ranks: CPUs have no store of 128 bytes",
                "`comm=symmetric`, or one of symmetric-ll, symmetric-one-shot, symmetric-two-shot");
}

std::unique_ptr<SymmetricExecutor> make_executor(Device& device, const SymmetricMemory& memory,
                                                 std::unique_ptr<Communicator> control, const RankGroup& job,
                                                 const SymmetricOptions& options) {
  if (on_gpu(device)) return make_cuda_executor(device, memory, std::move(control), job, options);
  return make_cpu_executor(memory, std::move(control), job, options);
}

/// Error{environment_missing} for GPUs without access to each other's memory.
void require_reach(const std::vector<Device*>& devices) {
  for (Device* device : devices)
    for (Device* other : devices) {
      if (device == other || !on_gpu(*device)) continue;
      const Feasibility reach = device->reach(*other);
      if (!reach.ok)
        throw Error(Cause::environment_missing, "symmetric collectives: " + reach.reason,
                    "`comm=auto`, or GPUs with peer access");
    }
}

}  // namespace

std::string_view to_string(SymmetricAlgorithm algorithm) {
  switch (algorithm) {
    case SymmetricAlgorithm::automatic:
      return "auto";
    case SymmetricAlgorithm::flagged:
      return "ll";
    case SymmetricAlgorithm::lines:
      return "ll128";
    case SymmetricAlgorithm::one_shot:
      return "one-shot";
    case SymmetricAlgorithm::two_shot:
      return "two-shot";
  }
  return "?";
}

int most_collective_blocks(int sm_count) {
  constexpr int kCommunicators = 4, kMost = 32;
  return std::clamp(sm_count / kCommunicators, 1, kMost);
}

SymmetricOptions default_symmetric_options(BackendKind backend) {
  SymmetricOptions options;
  if (backend == BackendKind::cuda)
    options.flagged_bytes = 4 << 10, options.line_bytes = 256 << 10, options.one_shot_bytes = 1 << 20,
    options.one_shot_bytes_of_many = 256 << 10;
  return options;
}

SymmetricAlgorithm choose(const SymmetricOptions& options, size_t bytes) {
  if (options.all_reduce != SymmetricAlgorithm::automatic) return options.all_reduce;
  if (bytes <= options.flagged_bytes) return SymmetricAlgorithm::flagged;
  if (bytes <= options.line_bytes) return SymmetricAlgorithm::lines;
  return bytes <= options.one_shot_bytes ? SymmetricAlgorithm::one_shot : SymmetricAlgorithm::two_shot;
}

std::vector<std::unique_ptr<Communicator>> make_symmetric_communicators(
    const std::vector<Device*>& devices, std::vector<std::unique_ptr<Communicator>> controls, double timeout_seconds,
    const SymmetricOptions& wanted) {
  const auto size = static_cast<int>(devices.size());
  check_team(Team::first(size, 0));
  check_algorithm(*devices.front(), wanted);
  int sm_count = devices.front()->spec().sm_count;
  for (const Device* device : devices) sm_count = std::min(sm_count, device->spec().sm_count);
  const SymmetricOptions options = for_team(wanted, size, sm_count);
  require_reach(devices);
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (Device* device : devices)
    buffers.push_back(allocate_zeroed(*device, region_bytes(*device, size), Deadline::after_seconds(timeout_seconds)));
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    const auto r = static_cast<size_t>(rank);
    communicators.push_back(std::make_unique<SymmetricCommunicator>(
        *devices[r],
        make_executor(*devices[r], memory_of_buffers(devices, buffers, rank, timeout_seconds), std::move(controls[r]),
                      RankGroup::first(size, rank), options),
        wanted));
  }
  return communicators;
}

std::unique_ptr<Communicator> make_symmetric_communicator(Device& device, std::unique_ptr<Communicator> control,
                                                          const RankGroup& job, double timeout_seconds,
                                                          const SymmetricOptions& wanted) {
  check_algorithm(device, wanted);
  const Deadline deadline = Deadline::after_seconds(timeout_seconds);
  const std::vector<std::string> all = control->exchange(text_of(wanted), deadline);
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] != all.front())
      throw Error(Cause::collective_mismatch,
                  fmt::format("rank 0 has {}; rank {} has {}", all.front(), rank, all[rank]),
                  "the same options on every rank", job.job_rank(static_cast<int>(rank)));
  int sm_count = device.spec().sm_count;
  for (const std::string& count : control->exchange(std::to_string(sm_count), deadline))
    sm_count = std::min(sm_count, std::stoi(count));
  const SymmetricOptions options = for_team(wanted, control->world_size(), sm_count);
  const SymmetricMemory memory =
      make_symmetric_memory(device, *control, region_bytes(device, control->world_size()), timeout_seconds);
  Communicator& waits = *control;
  std::unique_ptr<SymmetricExecutor> executor = make_executor(device, memory, std::move(control), job, options);
  waits.barrier(deadline);  // no rank writes before all have prepared their lines
  return std::make_unique<SymmetricCommunicator>(device, std::move(executor), wanted);
}

}  // namespace amdahl
