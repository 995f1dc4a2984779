// Attention on CUDA: cuDNN's fused kernels for bf16 and f16 where it has them, own kernels for everything else and for
// rows of several documents. Where both work, the faster is chosen by timing, once per problem.
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "ops/attention/cuda_attention.h"
#include "ops/attention/cuda_cudnn.h"
#include "ops/cuda_method_choices.h"

namespace amdahl {
namespace {

/// What the choice depends on. Method::fused is cuDNN.
struct AttentionKey {
  bool backward, causal;
  DType type;
  int64_t batch, steps, heads, key_heads, head_width, window;
  auto operator<=>(const AttentionKey&) const = default;
};

AttentionKey key_of(const AttentionShape& s, bool backward) {
  return {backward, s.causal, s.type, s.batch, s.steps, s.heads, s.key_heads(), s.head_width, s.window};
}

std::string describe(const AttentionKey& key, const Choice& choice) {
  std::string heads = fmt::format("{}", key.heads), kind = key.causal ? " causal" : "";
  if (key.key_heads != key.heads) heads += fmt::format(":{}", key.key_heads);
  if (key.window > 0) kind += fmt::format(" window {}", key.window);
  return fmt::format("attention{} {}x{} {} heads of {} {}{}: {} (cuDNN {:.2f} us, own {:.2f} us)",
                     key.backward ? " gradient" : "", key.batch, key.steps, heads, key.head_width, to_string(key.type),
                     kind, choice.method == Method::fused ? "cuDNN" : "own", choice.fused_us, choice.separate_us);
}

class CudaAttentionOps final : public AttentionOps {
 public:
  explicit CudaAttentionOps(std::shared_ptr<CudaContext> context) : context_(std::move(context)), choices_(context_) {}

  void attention_forward(Stream& stream, const AttentionForward& a) override {
    StreamMemory& own = context_->begin(stream);
    const auto run = [&](Method method, StreamMemory& memory, float* scratch, bool) {
      AttentionForward call = a;
      if (scratch) call.out = scratch, call.log_sums = scratch + out_floats(a.shape);
      if (method == Method::separate) return launch_attention(memory.launch, context_->options().math, call);
      cudnn_->forward(memory.launch.stream, workspace(memory, a.shape, false), call);
    };
    const bool fused = cudnn_works(a.shape, false, {a.qkv, a.out});
    run(choose(stream, a.shape, false, fused, out_floats(a.shape) + log_sums_of(a.shape), run), own, nullptr, true);
  }

  void attention_backward(Stream& stream, const AttentionBackward& a) override {
    StreamMemory& own = context_->begin(stream);
    const auto run = [&](Method method, StreamMemory& memory, float* scratch, bool) {
      AttentionBackward call = a;
      if (scratch) call.d_qkv = scratch;
      if (method == Method::separate)
        return launch_attention_gradient(memory.launch, memory.workspace, context_->options().math, call);
      cudnn_->backward(memory.launch.stream, workspace(memory, a.shape, true), call);
    };
    // cuDNN's deterministic gradient keeps a matrix of scores in memory, so that mode uses the own kernels.
    const bool fused =
        !context_->options().deterministic && cudnn_works(a.shape, true, {a.qkv, a.out, a.d_out, a.d_qkv});
    run(choose(stream, a.shape, true, fused, floats_of(a.shape, a.shape.packed_width()), run), own, nullptr, true);
  }

  void heads_forward(Stream& stream, const HeadsForward& a) override {
    launch_heads(context_->begin(stream).launch, a);
  }
  void heads_backward(Stream& stream, const HeadsBackward& a) override {
    const StreamMemory& memory = context_->begin(stream);
    launch_heads_gradient(memory.launch, memory.workspace, a);
  }

 private:
  /// Floats that hold a matrix with rows of so many elements, a multiple of 64.
  static int64_t floats_of(const AttentionShape& s, int64_t width) {
    const int64_t bytes = s.batch * s.steps * width * static_cast<int64_t>(size_of(s.type));
    return (bytes + 255) / 256 * 64;
  }
  static int64_t out_floats(const AttentionShape& s) { return floats_of(s, s.query_width()); }
  static int64_t log_sums_of(const AttentionShape& s) { return s.batch * s.steps * s.heads; }

  bool cudnn_works(const AttentionShape& s, bool backward, std::initializer_list<const void*> pointers) {
    if ((s.type != DType::bf16 && s.type != DType::f16) || s.starts) return false;  // documents: by own kernels
    if (s.head_width < 8 || s.head_width > kMostHeadWidth || s.head_width % 8 != 0) return false;
    for (const void* pointer : pointers)
      if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) return false;
    if (!opened_) cudnn_ = CudnnAttention::open(context_->index());
    opened_ = true;
    return cudnn_ && cudnn_->workspace_bytes(s, backward).has_value();
  }
  void* workspace(StreamMemory& memory, const AttentionShape& s, bool backward) {
    return context_->workspace(memory, cudnn_->workspace_bytes(s, backward).value_or(0));
  }
  template <class Run>
  Method choose(Stream& stream, const AttentionShape& s, bool backward, bool fused_works, int64_t scratch_floats,
                const Run& run) {
    if (!fused_works) return Method::separate;
    try {
      return choices_.choose(stream, key_of(s, backward), static_cast<size_t>(scratch_floats) * sizeof(float), run);
    } catch (const Error& error) {  // a cuDNN that builds a plan but does not run it is not used any more
      if (error.cause() == Cause::out_of_memory) throw;
      cudnn_.reset();
      return Method::separate;
    }
  }

  std::shared_ptr<CudaContext> context_;
  MethodChoices<AttentionKey> choices_;
  bool opened_ = false;
  std::unique_ptr<CudnnAttention> cudnn_;
};

}  // namespace

std::unique_ptr<AttentionOps> make_cuda_attention_ops(std::shared_ptr<CudaContext> context) {
  return std::make_unique<CudaAttentionOps>(std::move(context));
}

}  // namespace amdahl
