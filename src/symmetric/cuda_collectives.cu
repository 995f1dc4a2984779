// Collectives and messages in symmetric memory between GPUs, or partitions of one, capturable in graphs: one kernel per
// call, but for flagged messages and lines that need several.
//
// Sums are computed in rank order by every rank, or by one rank for all: all ranks hold the same bits, those of the
// collectives on CPUs. Calls of different sizes wait for data that does not come, until the deadline.
//
// Ranks of one process access each other's buffers in large calls. Small calls have one block. Of large ones each block
// has a part and meets the block of the same number on the other ranks alone. Their number is limited by the smallest
// device of the team (most_collective_blocks), so that the kernels of several communicators run beside each other.
#include <algorithm>
#include <functional>

#include "device/cuda_check.h"
#include "device/cuda_launch_early.cuh"
#include "symmetric/cuda_collective_kernels.cuh"
#include "symmetric/cuda_line_kernels.cuh"
#include "symmetric/cuda_round_kernels.cuh"
#include "symmetric/cuda_team.h"
#include "symmetric/symmetric_executor.h"

namespace amdahl {
namespace {

using Kernel = void (*)(TeamView, Layout, ExchangeCall);

/// The kernels of a type.
struct TypeKernels {
  Kernel sum, two_steps;
  Kernel flagged;  // null for types of more than 4 bytes
  Kernel lines, two_steps_in_lines;
};

template <class T>
TypeKernels kernels_of() {
  if constexpr (sizeof(T) <= sizeof(uint32_t))
    return {exchange<T, true>, two_steps<T, true>, reduce_flagged<T>, reduce_lines<T>, two_steps_in_lines<T>};
  else
    return {exchange<T, true>, two_steps<T, true>, nullptr, reduce_lines<T>, two_steps_in_lines<T>};
}

TypeKernels kernels_for(DType type) {
  switch (type) {
    case DType::f32:
      return kernels_of<float>();
    case DType::f64:
      return kernels_of<double>();
    case DType::f16:
      return kernels_of<__half>();
    case DType::bf16:
      return kernels_of<__nv_bfloat16>();
    case DType::i32:
      return kernels_of<int32_t>();
    case DType::i64:
      return kernels_of<int64_t>();
    case DType::u8:
      return kernels_of<uint8_t>();
    case DType::u32:
      return kernels_of<uint32_t>();
  }
  throw Error(Cause::internal, "a type without a sum");
}

struct CollectiveTuning {
  size_t block_bytes = 16 << 10;    // of the largest part that a rank adds up or moves, per block
  size_t direct_bytes = 256 << 10;  // all but all-reduces access buffers of other ranks from this size on
  /// Sums of more do not: reads of another rank's buffers reached 224 GB/s (two H200s), slots 313 (two H100s). At 4 MB
  /// they were 1.2x faster than slots.
  size_t most_direct_sum_bytes = 8 << 20;
  size_t line_share_bytes = 64 << 10;  // all-reduces in lines of more go in two steps, between more than two ranks
  int threads = kCollectiveThreads;
  int flagged_threads = kFlaggedThreads;
  int message_threads = kMessageThreads;
  int message_blocks = kMessageBlocks;
  bool overlapped_launches = true;  // of kernels of few blocks, see begin_after_previous
};

/// Whether two buffers of that many bytes share any.
bool overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto *first = static_cast<const char*>(a), *second = static_cast<const char*>(b);
  return std::less<>()(first, second + b_bytes) && std::less<>()(second, first + a_bytes);
}

class CudaExecutor final : public SymmetricExecutor {
 public:
  CudaExecutor(Device& device, const SymmetricMemory& memory, std::shared_ptr<Communicator> control,
               const RankGroup& job, const SymmetricOptions& options)
      : SymmetricExecutor(std::move(control), job),
        team_(CudaTeam::join(device, of_job(memory, job), "a symmetric collective")),
        options_(options),
        layout_(memory.team.size()),
        timeout_seconds_(memory.timeout_seconds) {
    if (memory.bytes < layout_.bytes()) throw Error(Cause::internal, "symmetric memory too small for collectives");
    lines_are_whole_ = all_have_native_atomics(index(), memory);
    meets_ = options.direct && this->control().shares_address_space() && job.size() > 1;
    overlaps_launches_ = tuning_.overlapped_launches && cuda_attribute(index(), cudaDevAttrComputeCapabilityMajor) >= 9;
    if (options.all_reduce == SymmetricAlgorithm::lines && !lines_are_whole_)
      throw Error(Cause::environment_missing, "ll128: the link between two GPUs does not keep lines of 128 bytes whole",
                  "`comm=symmetric`, or GPUs that NVLink connects");
    load_kernels();
    const std::unique_ptr<Stream> stream = device.make_stream("symmetric");
    const uint64_t first = options.first_epoch, units = first * kRoundUnits;
    for (const size_t state : {Layout::kState, Layout::kLineState})
      device.copy_in(*stream, memory.own<char>() + state, &units, sizeof(units));
    const std::vector<uint64_t> counters((Layout::kAddresses - Layout::kRounds) / sizeof(first), first);
    device.copy_in(*stream, memory.own<char>() + Layout::kRounds, counters.data(), counters.size() * sizeof(first));
    stream->synchronize(Deadline::after_seconds(memory.timeout_seconds));
  }

  void run(Stream& stream, const CollectiveCall& call, const void* send, void* recv, const FlightNote&) override {
    if (call.count == 0) return;
    if (call.kind == CollectiveKind::all_reduce) return all_reduce(stream, call, send, recv);
    const int rank = job().rank;
    const bool is_root = rank == call.root;
    // Large messages to or from one rank go in two steps, which use the links of all.
    const bool is_large = call.bytes() > options_.one_shot_bytes && job().size() > 2;
    ExchangeCall exchange_call{send, recv, call.bytes(), call.bytes(), -1, -1, call.op, true, true, false};
    const size_t all_bytes = call.bytes() * static_cast<size_t>(job().size());
    Kernel kernel = exchange<char, false>;
    switch (call.kind) {
      case CollectiveKind::reduce:
        exchange_call.count = exchange_call.stride = call.count;
        exchange_call.target = call.root, exchange_call.receives = is_root;
        kernel = is_large ? kernels_for(call.type).two_steps : kernels_for(call.type).sum;
        break;
      case CollectiveKind::broadcast:
        exchange_call.root = call.root, exchange_call.pushes = is_root;
        if (is_large) kernel = two_steps<char, false>;
        show(exchange_call, call.bytes(), nullptr, recv);
        break;
      case CollectiveKind::all_gather:
        show(exchange_call, all_bytes, nullptr, recv);
        break;
      case CollectiveKind::gather:
        exchange_call.target = call.root, exchange_call.receives = is_root;
        break;
      case CollectiveKind::reduce_scatter:
        exchange_call.count = exchange_call.stride = call.count;
        exchange_call.parts = true;
        kernel = kernels_for(call.type).sum;
        if (all_bytes > tuning_.most_direct_sum_bytes) break;
        if (recv == static_cast<const char*>(send) + static_cast<size_t>(rank) * call.bytes() ||
            !overlap(send, all_bytes, recv, call.bytes()))
          show(exchange_call, all_bytes, send, nullptr);
        else
          show(exchange_call, all_bytes, nullptr, nullptr);
        break;
      case CollectiveKind::scatter:
        exchange_call.root = call.root, exchange_call.pushes = is_root, exchange_call.parts = true;
        break;
      default:
        exchange_call.parts = true;
        show(exchange_call, all_bytes, nullptr, overlap(send, all_bytes, recv, all_bytes) ? nullptr : recv);
    }
    launch(stream, kernel, exchange_call, call.bytes());
  }

  void send(Stream& stream, const CollectiveCall& call, const void* data, const FlightNote&) override {
    move(stream, {static_cast<const char*>(data), nullptr, call.bytes(), 0, call.root, 0, 0, false, false, nullptr});
  }
  void receive(Stream& stream, const CollectiveCall& call, void* data, const FlightNote&) override {
    move(stream, {nullptr, static_cast<char*>(data), 0, call.bytes(), 0, call.root, 0, false, false, nullptr});
  }
  void send_receive(Stream& stream, const CollectiveCall& out, const void* data, const CollectiveCall& in,
                    void* received, const FlightNote&) override {
    move(stream, {static_cast<const char*>(data), static_cast<char*>(received), out.bytes(), in.bytes(), out.root,
                  in.root, 0, false, false, nullptr});
  }
  void abort() noexcept override { team_->end_waits(); }
  double timeout_seconds() const override { return timeout_seconds_; }

 private:
  /// Errors name ranks of the job.
  static SymmetricMemory of_job(SymmetricMemory memory, const RankGroup& job) {
    memory.team = job;
    return memory;
  }
  /// Loads the kernels before any rank waits in one.
  void load_kernels() {
    cudaFuncAttributes attributes{};
    const auto load = [&](const void* kernel) {
      if (kernel) cuda_check(cudaFuncGetAttributes(&attributes, kernel), index(), "cudaFuncGetAttributes");
    };
    for (const DType type :
         {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8, DType::u32}) {
      const TypeKernels kernels = kernels_for(type);
      for (const auto kernel :
           {kernels.sum, kernels.two_steps, kernels.flagged, kernels.lines, kernels.two_steps_in_lines})
        load(reinterpret_cast<const void*>(kernel));
    }
    load(reinterpret_cast<const void*>(exchange<char, false>));
    load(reinterpret_cast<const void*>(two_steps<char, false>));
    load(reinterpret_cast<const void*>(move_message));
  }

  /// Lets the ranks tell each other `send` and `recv` in a call of that many bytes. On all ranks alike; what others
  /// cannot access is told as null.
  void show(ExchangeCall& call, size_t bytes, const void* send, void* recv) const {
    call.meets = meets_ && bytes >= tuning_.direct_bytes;
    if (!call.meets) return;
    call.shown_send = accessible(send), call.shown_recv = const_cast<void*>(accessible(recv));
  }
  const void* accessible(const void* buffer) const { return is_open_to_peers(index(), buffer) ? buffer : nullptr; }

  unsigned most_blocks() const { return static_cast<unsigned>(std::clamp(options_.blocks, 1, kCollectiveBlocks)); }
  /// `bytes`: of the largest part that a rank adds up or moves.
  void launch(Stream& stream, Kernel kernel, const ExchangeCall& call, size_t bytes) {
    launch(stream, kernel, call, std::clamp<size_t>(bytes / tuning_.block_bytes, 1, most_blocks()),
           static_cast<size_t>(tuning_.threads));
  }
  /// A kernel whose data carry their flags: `threads` of them have something to do. As many blocks as may overlap, and
  /// more only when these are full.
  void launch_flagged(Stream& stream, Kernel kernel, const ExchangeCall& call, size_t threads) {
    constexpr size_t kWarp = 32;
    const auto whole_warps = [](size_t count) { return (count + kWarp - 1) / kWarp * kWarp; };
    const auto usual = static_cast<size_t>(tuning_.flagged_threads), most = static_cast<size_t>(tuning_.threads);
    const auto blocks_of = [&](size_t size) { return std::max<size_t>(1, (threads + size - 1) / size); };
    size_t blocks = blocks_of(usual);
    if (blocks > most_overlapped())
      blocks = std::clamp<size_t>(blocks_of(most), std::max<size_t>(1, most_overlapped()), most_blocks());
    launch(stream, kernel, call, blocks, std::clamp(whole_warps((threads + blocks - 1) / blocks), kWarp, most));
  }
  /// A kernel that waits for the previous one holds multiprocessors: with it, a communicator has at most most_blocks().
  size_t most_overlapped() const { return most_blocks() / 2; }
  void launch(Stream& stream, Kernel kernel, const ExchangeCall& call, size_t blocks, size_t threads) {
    const LaunchPlace place{team_->use(stream), index(), overlaps_launches_ && blocks <= most_overlapped()};
    launch_on(place, {dim3(static_cast<unsigned>(blocks)), static_cast<unsigned>(threads), 0}, kernel,
              "a symmetric collective", team_->view(), layout_, call);
  }

  void move(Stream& stream, MessageCall call) {
    const auto most =
        static_cast<size_t>(std::clamp(std::min(options_.blocks, tuning_.message_blocks), 1, kMessageBlocks));
    const auto blocks_for = [&](size_t bytes) {
      return static_cast<unsigned>(bytes == 0 ? 0 : std::clamp<size_t>(bytes / tuning_.block_bytes, 1, most));
    };
    // Up to this size a message passes through the slots: those of four blocks or more hold it whole, so that its
    // sender need not wait for the receiver.
    constexpr size_t kSlotBytes = 1 << 20;
    call.sent_meets = meets_ && call.send_bytes > kSlotBytes;
    call.received_meets = meets_ && call.recv_bytes > kSlotBytes;
    if (call.received_meets) call.shown_recv = static_cast<char*>(const_cast<void*>(accessible(call.recv)));
    call.senders = blocks_for(call.send_bytes);
    const unsigned blocks = call.senders + blocks_for(call.recv_bytes);
    if (blocks == 0) return;
    move_message<<<blocks, static_cast<unsigned>(tuning_.message_threads), 0, team_->use(stream)>>>(team_->view(),
                                                                                                    layout_, call);
    cuda_check(cudaGetLastError(), index(), "a symmetric message");
  }

  void all_reduce(Stream& stream, const CollectiveCall& call, const void* send, void* recv) {
    const size_t element = size_of(call.type);
    const TypeKernels kernels = kernels_for(call.type);
    const auto world = static_cast<size_t>(job().size());
    SymmetricAlgorithm algorithm = choose(options_, call.bytes());
    if (algorithm == SymmetricAlgorithm::flagged && !kernels.flagged) algorithm = SymmetricAlgorithm::one_shot;
    if (algorithm == SymmetricAlgorithm::lines && !lines_are_whole_) algorithm = SymmetricAlgorithm::one_shot;
    ExchangeCall piece{send, recv, static_cast<size_t>(call.count), 0, -1, -1, call.op, true, true, false};
    if (algorithm == SymmetricAlgorithm::one_shot) return launch(stream, kernels.sum, piece, call.bytes());
    if (algorithm == SymmetricAlgorithm::two_shot) {
      piece.meets = meets_ && call.bytes() <= tuning_.most_direct_sum_bytes;
      if (piece.meets) piece.shown_send = accessible(send), piece.shown_recv = const_cast<void*>(accessible(recv));
      return launch(stream, kernels.two_steps, piece, call.bytes() / world);
    }
    const bool in_lines = algorithm == SymmetricAlgorithm::lines;
    const bool in_steps = in_lines && world > 2 && call.bytes() > tuning_.line_share_bytes;
    const size_t line_elements = Layout::kLines * Layout::kLineData / element;
    // Shares begin at multiples of 16 elements.
    const size_t most = in_steps   ? (line_elements - 16) * world
                        : in_lines ? line_elements
                                   : Layout::kFlaggedBytes / element;
    for (size_t begin = 0; begin < call.count; begin += most) {
      piece.send = static_cast<const char*>(send) + begin * element;
      piece.recv = static_cast<char*>(recv) + begin * element;
      piece.count = std::min(most, static_cast<size_t>(call.count) - begin);
      const size_t bytes = piece.count * element;
      const size_t lines = ((in_steps ? bytes / world : bytes) + Layout::kLineData - 1) / Layout::kLineData;
      if (in_lines)
        launch_flagged(stream, in_steps ? kernels.two_steps_in_lines : kernels.lines, piece, lines * kLanesPerLine);
      else
        launch_flagged(stream, kernels.flagged, piece, (bytes + 7) / 8);
    }
  }

  int index() const { return team_->device().spec().index; }

  const std::shared_ptr<CudaTeam> team_;
  const SymmetricOptions options_;
  const Layout layout_;
  const double timeout_seconds_;
  const CollectiveTuning tuning_;
  bool lines_are_whole_ = false;    // on every link of this rank's GPU
  bool meets_ = false;              // the ranks can access each other's buffers, if these are open to peers
  bool overlaps_launches_ = false;  // of kernels of few blocks
};

}  // namespace

size_t cuda_collective_bytes(int world) { return Layout(world).bytes(); }

std::unique_ptr<SymmetricExecutor> make_cuda_executor(Device& device, const SymmetricMemory& memory,
                                                      std::shared_ptr<Communicator> control, const RankGroup& job,
                                                      const SymmetricOptions& options) {
  return std::make_unique<CudaExecutor>(device, memory, std::move(control), job, options);
}

}  // namespace amdahl
