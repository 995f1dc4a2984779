// Collectives in symmetric memory between GPUs, or partitions of one: one kernel per call, capturable in graphs.
//
// Sums are computed in rank order by every rank, or by one rank for all: all ranks hold the same bits, those of the
// collectives on CPUs. Calls of different sizes wait for data that does not come, until the deadline.
#include <algorithm>

#include "device/cuda_check.h"
#include "symmetric/cuda_collective_kernels.cuh"
#include "symmetric/cuda_line_kernels.cuh"
#include "symmetric/cuda_team.h"
#include "symmetric/symmetric_executor.h"

namespace amdahl {
namespace {

/// The kernels of a type.
struct TypeKernels {
  void (*sum)(TeamView, Layout, ExchangeCall);
  void (*two_shot)(TeamView, Layout, ExchangeCall);
  void (*flagged)(TeamView, Layout, ExchangeCall);  // null for types of more than 4 bytes
  void (*lines)(TeamView, Layout, ExchangeCall);
};

template <class T>
TypeKernels kernels_of() {
  if constexpr (sizeof(T) <= sizeof(uint32_t))
    return {exchange<T, true>, reduce_two_shot<T>, reduce_flagged<T>, reduce_lines<T>};
  else
    return {exchange<T, true>, reduce_two_shot<T>, nullptr, reduce_lines<T>};
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

class CudaExecutor final : public SymmetricExecutor {
 public:
  CudaExecutor(Device& device, const SymmetricMemory& memory, std::shared_ptr<Communicator> control,
               const RankGroup& job, const SymmetricOptions& options)
      : SymmetricExecutor(std::move(control), job),
        team_(CudaTeam::join(device, of_job(memory, job), "a symmetric collective")),
        options_(options),
        layout_{memory.team.size()},
        timeout_seconds_(memory.timeout_seconds) {
    if (memory.bytes < layout_.bytes()) throw Error(Cause::internal, "symmetric memory too small for collectives");
    lines_are_whole_ = all_have_native_atomics(index(), memory);
    if (options.all_reduce == SymmetricAlgorithm::lines && !lines_are_whole_)
      throw Error(Cause::environment_missing, "ll128: the link between two GPUs does not keep lines of 128 bytes whole",
                  "`comm=symmetric`, or GPUs that NVLink connects");
    load_kernels();
    const std::unique_ptr<Stream> stream = device.make_stream("symmetric");
    const uint64_t first = options.first_epoch;
    for (const size_t state : {Layout::kState, Layout::kLineState})
      device.copy_in(*stream, memory.own<char>() + state, &first, sizeof(first));
    stream->synchronize(Deadline::after_seconds(memory.timeout_seconds));
  }

  void run(Stream& stream, const CollectiveCall& call, const void* send, void* recv, const FlightNote&) override {
    if (call.count == 0) return;
    if (call.kind == CollectiveKind::all_reduce) return all_reduce(stream, call, send, recv);
    const int rank = job().rank;
    const bool is_root = rank == call.root;
    ExchangeCall exchange{send, recv, 0, call.count, -1, call.op, true, true, false};
    bool sums = false;
    switch (call.kind) {
      case CollectiveKind::reduce:
        sums = true, exchange.receives = is_root;
        break;
      case CollectiveKind::broadcast:
        exchange.root = call.root, exchange.pushes = is_root;
        break;
      case CollectiveKind::all_gather:
        break;
      case CollectiveKind::gather:
        exchange.receives = is_root;
        break;
      case CollectiveKind::reduce_scatter:
        sums = true, exchange.parts = true;
        break;
      case CollectiveKind::scatter:
        exchange.root = call.root, exchange.pushes = is_root, exchange.parts = true;
        break;
      default:
        exchange.parts = true;
    }
    launch_pieces(stream, call, exchange, sums);
  }

  void send(Stream&, const CollectiveCall&, const void*, const FlightNote&) override { refuse_messages(); }
  void receive(Stream&, const CollectiveCall&, void*, const FlightNote&) override { refuse_messages(); }
  void send_receive(Stream&, const CollectiveCall&, const void*, const CollectiveCall&, void*,
                    const FlightNote&) override {
    refuse_messages();
  }
  void abort() noexcept override { team_->end_waits(); }
  double timeout_seconds() const override { return timeout_seconds_; }

 private:
  /// Errors name ranks of the job.
  static SymmetricMemory of_job(SymmetricMemory memory, const RankGroup& job) {
    memory.team = job;
    return memory;
  }
  [[noreturn]] static void refuse_messages() {
    throw Error(Cause::usage, "symmetric collectives between GPUs send no messages", "`comm=auto` for pipelines");
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
      for (const auto kernel : {kernels.sum, kernels.two_shot, kernels.flagged, kernels.lines})
        load(reinterpret_cast<const void*>(kernel));
    }
    load(reinterpret_cast<const void*>(exchange<char, false>));
    load(reinterpret_cast<const void*>(exchange<uint4, false>));
  }

  void launch(Stream& stream, void (*kernel)(TeamView, Layout, ExchangeCall), const ExchangeCall& call, size_t bytes) {
    constexpr size_t kBytesPerBlock = 8 << 10;
    const auto blocks =
        static_cast<unsigned>(std::clamp<size_t>(bytes / kBytesPerBlock, 1, static_cast<size_t>(kCollectiveBlocks)));
    kernel<<<blocks, kCollectiveThreads, 0, team_->use(stream)>>>(team_->view(), layout_, call);
    cuda_check(cudaGetLastError(), index(), "a symmetric collective");
  }

  void all_reduce(Stream& stream, const CollectiveCall& call, const void* send, void* recv) {
    const size_t element = size_of(call.type);
    const TypeKernels kernels = kernels_for(call.type);
    const auto world = static_cast<size_t>(job().size());
    SymmetricAlgorithm algorithm = choose(options_, call.bytes());
    if (algorithm == SymmetricAlgorithm::flagged && !kernels.flagged) algorithm = SymmetricAlgorithm::one_shot;
    if (algorithm == SymmetricAlgorithm::lines && !lines_are_whole_) algorithm = SymmetricAlgorithm::one_shot;
    /// The kernel, the bytes that one launch can have, and the ranks that share the work of each byte.
    struct Method {
      void (*kernel)(TeamView, Layout, ExchangeCall);
      size_t most_bytes, shares;
    };
    const auto method = [&]() -> Method {
      switch (algorithm) {
        case SymmetricAlgorithm::flagged:
          return {kernels.flagged, Layout::kFlaggedBytes, 1};
        case SymmetricAlgorithm::lines:
          return {kernels.lines, Layout::kLines * Layout::kLineData, 1};
        case SymmetricAlgorithm::two_shot:
          return {kernels.two_shot, (Layout::kPushBytes - 256) * world, world};
        default:
          return {kernels.sum, Layout::kPushBytes, 1};
      }
    }();
    const size_t most = method.most_bytes / element;
    for (size_t begin = 0; begin < call.count; begin += most) {
      const size_t count = std::min(most, static_cast<size_t>(call.count) - begin);
      const ExchangeCall piece{static_cast<const char*>(send) + begin * element,
                               static_cast<char*>(recv) + begin * element,
                               count,
                               0,
                               -1,
                               call.op,
                               true,
                               true,
                               false};
      launch(stream, method.kernel, piece, count * element / method.shares);
    }
  }

  void launch_pieces(Stream& stream, const CollectiveCall& call, ExchangeCall exchange_call, bool sums) {
    const auto* send = static_cast<const char*>(exchange_call.send);
    auto* recv = static_cast<char*>(exchange_call.recv);
    // Data that is only moved is moved 16 bytes at a time where this rank's addresses allow it.
    const size_t width = sums ? size_of(call.type) : 1;
    const size_t all = call.bytes() / width, most = Layout::kPushBytes / width;
    exchange_call.stride = all;
    for (size_t begin = 0; begin < all; begin += most) {
      ExchangeCall piece = exchange_call;
      piece.send = send + begin * width, piece.recv = recv + begin * width;
      piece.count = std::min(most, all - begin);
      const size_t bytes = piece.count * width;
      const auto fits = [](const void* place) { return reinterpret_cast<uintptr_t>(place) % sizeof(uint4) == 0; };
      const bool wide = !sums && bytes % sizeof(uint4) == 0 && call.bytes() % sizeof(uint4) == 0 && fits(piece.send) &&
                        fits(piece.recv);
      if (wide) piece.count /= sizeof(uint4), piece.stride /= sizeof(uint4);
      launch(stream,
             sums   ? kernels_for(call.type).sum
             : wide ? exchange<uint4, false>
                    : exchange<char, false>,
             piece, bytes);
    }
  }

  int index() const { return team_->device().spec().index; }

  const std::shared_ptr<CudaTeam> team_;
  const SymmetricOptions options_;
  const Layout layout_;
  const double timeout_seconds_;
  bool lines_are_whole_ = false;  // on every link of this rank's GPU
};

}  // namespace

size_t cuda_collective_bytes(int world) { return Layout{world}.bytes(); }

std::unique_ptr<SymmetricExecutor> make_cuda_executor(Device& device, const SymmetricMemory& memory,
                                                      std::shared_ptr<Communicator> control, const RankGroup& job,
                                                      const SymmetricOptions& options) {
  return std::make_unique<CudaExecutor>(device, memory, std::move(control), job, options);
}

}  // namespace amdahl
