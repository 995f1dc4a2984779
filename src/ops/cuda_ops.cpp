#include "ops/cuda_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "device/cuda_check.h"
#include "device/cuda_device.h"
#include "device/cuda_stream.h"
#include "ops/cuda_choice.h"
#include "ops/cuda_gemm.h"
#include "ops/cuda_kernels.h"
#include "ops/cuda_mask_probe.h"
#include "ops/cuda_peers.h"
#include "ops/cuda_small.h"
#include "ops/cuda_tuner.h"

namespace amdahl {
namespace {

/// Memory of one stream: the products' workspace and the kernels' scratch. Work of a stream uses it in turn.
struct StreamMemory {
  std::unique_ptr<Buffer> buffer;
  GemmWorkspace workspace;
  KernelLaunch launch;
};

class CudaOps final : public Ops {
 public:
  CudaOps(Device& device, const OpsOptions& options)
      : device_(device), options_(options), bound_(bind(device)), tuner_(index()), gemm_(index(), options, tuner_) {
    preload_kernels(index());
    has_clusters_ = cuda_attribute(index(), cudaDevAttrClusterLaunch) != 0;
    has_small_ = has_clusters_ && preload_small(index());
    if (!options.deterministic) masks_ = probe_masks(tuner_, gemm_, tuner_memory().launch, tuner_memory().workspace);
  }

  int64_t mask_bytes(int64_t batch, int64_t width) const override {
    return masks_.backward ? batch * mask_row_bits(width) / 8 : 0;
  }

  bool gains_from_second_stream() const override { return true; }
  void dense_forward(Stream& stream, const DenseForward& a) override;
  void dense_backward_input(Stream& stream, const DenseBackwardInput& a) override;
  void dense_backward_weight(Stream& stream, const DenseBackwardWeight& a) override;
  void dense_backward(Stream& stream, const DenseBackwardWeight& weight, const DenseBackwardInput* input) override;
  bool fuses_update(int64_t batch, int64_t in, int64_t out) const override {
    return has_small_ && small_update_applies(options_.math, device_.spec().sm_count, batch, in, out);
  }
  void dense_backward_update(Stream& stream, const DenseBackwardWeight& weight, const AdamStep& adam) override;
  bool fuses_backward(int64_t batch) const override { return small_applies(batch, 1, 1); }

  void mse_loss(Stream& stream, const MseLoss& a) override { launch_mse_loss(begin(stream).launch, a); }
  void cross_entropy_loss(Stream& stream, const CrossEntropyLoss& a) override {
    launch_cross_entropy_loss(begin(stream).launch, a);
  }
  void adam_step(Stream& stream, const AdamStep& a) override { launch_adam(begin(stream).launch, a); }
  void sgd_step(Stream& stream, const SgdStep& a) override { launch_sgd(begin(stream).launch, a); }
  size_t peer_flag_bytes() const override { return sizeof(PeerFlags); }
  std::unique_ptr<PeerUpdater> join_peers(const PeerGroup& group) override {
    return make_cuda_peer_updater(device_, group);
  }
  void gather_rows(Stream& stream, const float* table, const int32_t* indices, float* out, int64_t rows,
                   int64_t width) override {
    launch_gather_rows(begin(stream).launch, table, indices, out, rows, width);
  }
  void increment(Stream& stream, uint64_t* counter) override { launch_increment(begin(stream).launch, counter); }

  const std::map<ProductKey, Choice>& choices() const { return choices_; }

 private:
  static bool bind(Device& device) {
    device.bind_thread();
    return true;
  }
  int index() const { return device_.spec().index; }
  /// The same for all calls of a layer, whatever their direction.
  bool small_applies(int64_t batch, int64_t in, int64_t out) const {
    return has_small_ && small_dense_applies(options_.math, batch, in, out);
  }
  StreamMemory make_memory(cudaStream_t stream);
  StreamMemory& tuner_memory() {
    if (!tuner_memory_) tuner_memory_ = std::make_unique<StreamMemory>(make_memory(tuner_.stream()));
    return *tuner_memory_;
  }
  StreamMemory& begin(Stream& stream) {
    device_.bind_thread();
    std::shared_ptr<void>& own = as_cuda_stream(stream).attachment(this);
    if (!own) own = std::make_shared<StreamMemory>(make_memory(as_cuda(stream)));
    return *static_cast<StreamMemory*>(own.get());
  }
  /// The way to compute `key`; times both when `fused_works` and it is seen for the first time outside a capture.
  /// `run(way, memory, output)` enqueues the product on memory's stream, writing to scratch memory instead if given.
  template <class Run>
  Way choose(Stream& stream, const ProductKey& key, bool fused_works, int64_t scratch_floats, const Run& run);
  void gemm(const StreamMemory& memory, const GemmCall& call, bool may_tune) {
    gemm_.run(memory.launch, memory.workspace, call, may_tune);
  }

  Device& device_;
  OpsOptions options_;
  bool bound_;  // the members below need the device to be current
  CudaTuner tuner_;
  CudaGemm gemm_;
  bool has_clusters_ = false;
  bool has_small_ = false;  // the kernels for few rows are in this build for this chip
  MaskSupport masks_;
  std::unique_ptr<StreamMemory> tuner_memory_;
  std::map<ProductKey, Choice> choices_;
};

StreamMemory CudaOps::make_memory(cudaStream_t stream) {
  const RelaxedCapture relaxed;  // a stream may be met for the first time inside a capture
  constexpr size_t kCounterBytes = KernelScratch::kNumCounters * sizeof(unsigned);
  constexpr size_t kPartialBytes = KernelScratch::kPartialFloats * sizeof(float);
  constexpr size_t kTempBytes = KernelScratch::kTempFloats * sizeof(float);
  StreamMemory memory;
  memory.buffer = device_.allocate(kGemmWorkspaceBytes + kCounterBytes + kPartialBytes + kTempBytes);
  char* base = memory.buffer->as<char>();
  memory.workspace = {base, kGemmWorkspaceBytes};
  char* scratch = base + kGemmWorkspaceBytes;
  memory.launch = {stream, index(), device_.spec().sm_count, has_clusters_, {}};
  memory.launch.scratch.counters = reinterpret_cast<unsigned*>(scratch);
  memory.launch.scratch.partials = reinterpret_cast<float*>(scratch + kCounterBytes);
  memory.launch.scratch.temp = reinterpret_cast<float*>(scratch + kCounterBytes + kPartialBytes);
  cuda_check(cudaMemsetAsync(scratch, 0, kCounterBytes, tuner_.stream()), index(), "cudaMemsetAsync");
  tuner_.synchronize();
  return memory;
}

template <class Run>
Way CudaOps::choose(Stream& stream, const ProductKey& key, bool fused_works, int64_t scratch_floats, const Run& run) {
  // Support depends on the pointers' alignment, which the key leaves out.
  if (!fused_works) return Way::separate;
  if (const auto found = choices_.find(key); found != choices_.end()) return found->second.way;
  if (options_.deterministic || is_capturing(stream)) return Way::fused;
  Choice choice;
  {
    StreamMemory& memory = tuner_memory();
    tuner_.let_finish(as_cuda(stream));
    const TunerMemory scratch(tuner_, index(), static_cast<size_t>(scratch_floats) * sizeof(float));
    run(Way::fused, memory, scratch.data(), true);  // chooses the products' algorithms first
    run(Way::separate, memory, scratch.data(), true);
    const auto time = [&](Way way) {
      return tuner_.time_us([&](cudaStream_t) { run(way, memory, scratch.data(), false); });
    };
    choice.fused_us = time(Way::fused);
    choice.separate_us = time(Way::separate);
    choice.way = choice.fused_us <= choice.separate_us ? Way::fused : Way::separate;
  }
  choices_.emplace(key, choice);
  return choice.way;
}

// Row-major y[B,O] = x[B,I] w[O,I]^T is column-major y(O,B) = w(I,O)^T x(I,B).
void CudaOps::dense_forward(Stream& stream, const DenseForward& a) {
  if (small_applies(a.batch, a.in, a.out)) return launch_small_forward(begin(stream).launch, options_.math, a);
  if (a.dropout.p > 0) {  // the mask is that of the output after dropout, so dropout writes it
    DenseForward product = a;
    product.mask = nullptr;
    product.dropout = {};
    dense_forward(stream, product);
    launch_dropout(begin(stream).launch, a);
    return;
  }
  StreamMemory& own = begin(stream);
  const Epilogue plain =
      a.relu ? (a.bias ? Epilogue::relu_bias : Epilogue::relu) : (a.bias ? Epilogue::bias : Epilogue::none);
  const bool mask = a.relu && a.mask;
  const Epilogue fused = !mask ? plain : (a.bias ? Epilogue::relu_bias_mask : Epilogue::relu_mask);
  const auto call_for = [&](Epilogue epilogue, float* y, uint8_t* mask_out) {
    GemmCall call{{a.out, a.batch, a.in, true, false, epilogue, false}, a.w, a.x, y};
    call.vector = epilogue == Epilogue::none || epilogue == Epilogue::relu ? nullptr : a.bias;
    call.mask = epilogue == fused ? mask_out : nullptr;
    return call;
  };
  const int64_t y_floats = (a.batch * a.out + 63) / 64 * 64;
  const auto run = [&](Way way, const StreamMemory& memory, float* scratch, bool may_tune) {
    float* y = scratch ? scratch : a.y;
    uint8_t* mask_out = !mask ? nullptr : scratch ? reinterpret_cast<uint8_t*>(scratch + y_floats) : a.mask;
    if (way == Way::fused) return gemm(memory, call_for(fused, y, mask_out), may_tune);
    // Without a mask kernel of its own, the product can still apply bias and relu where cuBLASLt knows how.
    const bool product_finishes = gemm_.supports(call_for(plain, y, nullptr));
    gemm(memory, call_for(product_finishes ? plain : Epilogue::none, y, nullptr), may_tune);
    if (mask || !product_finishes)
      launch_bias_relu(memory.launch, y, product_finishes ? nullptr : a.bias, a.relu, mask_out, a.batch, a.out);
  };
  const bool fused_works = (!mask || masks_.forward) && gemm_.supports(call_for(fused, a.y, mask ? a.mask : nullptr));
  const ProductKey key{Product::forward, a.batch, a.in, a.out, a.relu, a.bias != nullptr, mask, false};
  const bool may_tune = !is_capturing(stream);
  // Bias and relu alone are never slower inside the product: only a mask is a question of timing.
  const Way way = mask ? choose(stream, key, fused_works, y_floats + a.batch * mask_row_bits(a.out) / 32, run)
                       : (fused_works ? Way::fused : Way::separate);
  run(way, own, nullptr, may_tune);
}

// Row-major dx[B,I] = dy[B,O] w[O,I] is column-major dx(I,B) = w(I,O) dy(O,B).
void CudaOps::dense_backward_input(Stream& stream, const DenseBackwardInput& a) {
  if (small_applies(a.batch, a.in, a.out))
    return launch_small_backward(begin(stream).launch, options_.math, nullptr, &a);
  StreamMemory& own = begin(stream);
  const uint8_t* mask = a.activation ? a.mask : nullptr;
  const bool masked = a.activation != nullptr;
  const Epilogue fused = a.dbias ? Epilogue::masked_sum : Epilogue::masked;
  // The epilogue overwrites its sums, so sums that accumulate take a detour.
  const bool detour = a.dbias && a.accumulate;
  const auto call_for = [&](Epilogue epilogue, float* dx, float* sums) {
    GemmCall call{{a.in, a.batch, a.out, false, false, epilogue, false}, a.w, a.dy, dx, a.scale};
    if (epilogue != Epilogue::none) call.mask = mask, call.vector = sums;
    return call;
  };
  const auto run = [&](Way way, const StreamMemory& memory, float* scratch, bool may_tune) {
    float* dx = scratch ? scratch : a.dx;
    float* dbias = !a.dbias ? nullptr : scratch ? scratch + (a.batch * a.in + 63) / 64 * 64 : a.dbias;
    if (way == Way::fused) {
      gemm(memory, call_for(fused, dx, detour ? memory.launch.scratch.temp : dbias), may_tune);
      if (detour) launch_add(memory.launch, dbias, memory.launch.scratch.temp, a.in);
      return;
    }
    gemm(memory, call_for(Epilogue::none, dx, nullptr), may_tune);
    if (masked || dbias)
      launch_mask_and_sum(memory.launch, {dx, a.activation, mask, dbias, a.batch, a.in, a.accumulate});
  };
  const bool fused_works = masks_.backward && masked && mask && a.in <= KernelScratch::kTempFloats &&
                           gemm_.supports(call_for(fused, a.dx, detour ? own.launch.scratch.temp : a.dbias));
  const ProductKey key{Product::backward_input, a.batch,         a.in,        a.out, masked,
                       a.dbias != nullptr,      mask != nullptr, a.accumulate};
  const Way way = choose(stream, key, fused_works, (a.batch * a.in + 63) / 64 * 64 + a.in, run);
  run(way, own, nullptr, !is_capturing(stream));
}

// Row-major dw[O,I] = dy[B,O]^T x[B,I] is column-major dw(I,O) = x(I,B) dy(O,B)^T.
void CudaOps::dense_backward_weight(Stream& stream, const DenseBackwardWeight& a) {
  if (a.dbias && a.dy_stride != 0 && a.dy_stride != a.out)
    throw Error(Cause::internal, "sums over a part of dy are not supported: take them with the whole layer");
  if (small_applies(a.batch, a.in, a.out))
    return launch_small_backward(begin(stream).launch, options_.math, &a, nullptr);
  StreamMemory& own = begin(stream);
  const bool detour = a.dbias && a.accumulate;
  const auto call_for = [&](Epilogue epilogue, float* dw, float* sums) {
    GemmCall call{{a.in, a.out, a.batch, false, true, epilogue, a.accumulate}, a.x, a.dy, dw};
    if (epilogue != Epilogue::none) call.vector = sums;
    call.problem.stride_b = a.dy_stride;
    if (a.held_sms > 0) call.problem.num_sms = std::max(1, device_.spec().sm_count - a.held_sms);
    return call;
  };
  const auto run = [&](Way way, const StreamMemory& memory, float* scratch, bool may_tune) {
    float* dw = scratch ? scratch : a.dw;
    float* dbias = !a.dbias ? nullptr : scratch ? scratch + (a.in * a.out + 63) / 64 * 64 : a.dbias;
    if (way == Way::fused) {
      gemm(memory, call_for(Epilogue::sum_b, dw, detour ? memory.launch.scratch.temp : dbias), may_tune);
      if (detour) launch_add(memory.launch, dbias, memory.launch.scratch.temp, a.out);
      return;
    }
    gemm(memory, call_for(Epilogue::none, dw, nullptr), may_tune);
    if (dbias)  // nothing is masked, so dy is only read
      launch_mask_and_sum(memory.launch,
                          {const_cast<float*>(a.dy), nullptr, nullptr, dbias, a.batch, a.out, a.accumulate});
  };
  const bool fused_works = masks_.weight_sums && a.dbias && a.out <= KernelScratch::kTempFloats &&
                           gemm_.supports(call_for(Epilogue::sum_b, a.dw, detour ? own.launch.scratch.temp : a.dbias));
  const ProductKey key{Product::backward_weight, a.batch, a.in, a.out, false, a.dbias != nullptr, false, a.accumulate};
  const Way way = choose(stream, key, fused_works, (a.in * a.out + 63) / 64 * 64 + a.out, run);
  run(way, own, nullptr, !is_capturing(stream));
}

void CudaOps::dense_backward(Stream& stream, const DenseBackwardWeight& weight, const DenseBackwardInput* input) {
  const bool one_dy = !input || (input->dy == weight.dy && input->batch == weight.batch && input->in == weight.in &&
                                 input->out == weight.out && (weight.dy_stride == 0 || weight.dy_stride == weight.out));
  if (!one_dy || !small_applies(weight.batch, weight.in, weight.out)) return Ops::dense_backward(stream, weight, input);
  launch_small_backward(begin(stream).launch, options_.math, &weight, input);
}

void CudaOps::dense_backward_update(Stream& stream, const DenseBackwardWeight& weight, const AdamStep& adam) {
  const auto aligned = [](std::initializer_list<const void*> pointers) {
    return std::all_of(pointers.begin(), pointers.end(),
                       [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16 == 0; });
  };
  const bool plain = !weight.dbias && !weight.accumulate && weight.dy_stride % 4 == 0;
  if (!plain || !fuses_update(weight.batch, weight.in, weight.out) ||
      !aligned({weight.x, weight.dy, adam.params, adam.m, adam.v}))
    return Ops::dense_backward_update(stream, weight, adam);
  launch_small_update(begin(stream).launch, options_.math, weight, adam);
}

}  // namespace

std::unique_ptr<Ops> make_cuda_ops(Device& device, const OpsOptions& options) {
  if (device.backend() != BackendKind::cuda) throw Error(Cause::internal, "CUDA ops need a CUDA device");
  return std::make_unique<CudaOps>(device, options);
}

std::vector<std::string> cuda_ops_choices(const Ops& ops) {
  std::vector<std::string> lines;
  if (const auto* cuda = dynamic_cast<const CudaOps*>(&ops))
    for (const auto& [key, choice] : cuda->choices()) lines.push_back(describe(key, choice));
  return lines;
}

}  // namespace amdahl
