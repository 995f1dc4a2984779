// CPU operations: matrix products by oneDNN with fused bias and ReLU, element-wise work by cpu_kernels.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <tuple>

#include "device/cpu_device.h"
#include "ops/cpu_kernels.h"
#include "ops/cpu_losses.h"
#include "ops/ops.h"

namespace amdahl {
namespace {

const CpuKernels& best_kernels() {
#if defined(__x86_64__)
  static const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return avx2 ? kCpuKernelsAvx2 : kCpuKernelsBaseline;
#else
  return kCpuKernelsBaseline;
#endif
}

// c[M,N] = a[M,K] b[K,N] (+ bias[N]) (+ c) (then relu), each operand row-major or its transpose.
struct Product {
  int64_t m, n, k;
  bool transpose_a, transpose_b, bias, relu, accumulate;
  int64_t stride_a = 0;  // floats between stored rows of a; 0: dense
  auto key() const { return std::tie(m, n, k, transpose_a, transpose_b, bias, relu, accumulate, stride_a); }
  bool operator<(const Product& other) const { return key() < other.key(); }
};

// One oneDNN primitive for one shape. Executed by the worker thread of one stream at a time.
class Matmul {
 public:
  Matmul(const dnnl::engine& engine, const Product& p) : engine_(engine) {
    using dnnl::memory;
    const auto f32 = memory::data_type::f32;
    const auto dense = [&](int64_t rows, int64_t columns, bool transposed) {
      return memory::desc({rows, columns}, f32, transposed ? memory::dims{1, rows} : memory::dims{columns, 1});
    };
    a_ = p.stride_a == 0 ? dense(p.m, p.k, p.transpose_a)
                         : memory::desc({p.m, p.k}, f32,
                                        p.transpose_a ? memory::dims{1, p.stride_a} : memory::dims{p.stride_a, 1});
    b_ = dense(p.k, p.n, p.transpose_b);
    c_ = dense(p.m, p.n, false);
    bias_ = dense(1, p.n, false);
    dnnl::post_ops post;
    if (p.accumulate) post.append_sum(1.0f);
    if (p.relu) post.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(post);
    const auto description = p.bias ? dnnl::matmul::desc(a_, b_, bias_, c_) : dnnl::matmul::desc(a_, b_, c_);
    primitive_ = dnnl::matmul({description, attributes, engine_});
  }

  void run(const dnnl::stream& stream, const float* a, const float* b, const float* bias, float* c) const {
    const auto wrap = [&](const dnnl::memory::desc& d, const float* data) {
      return dnnl::memory(d, engine_, const_cast<float*>(data));
    };
    std::unordered_map<int, dnnl::memory> arguments{
        {DNNL_ARG_SRC, wrap(a_, a)}, {DNNL_ARG_WEIGHTS, wrap(b_, b)}, {DNNL_ARG_DST, wrap(c_, c)}};
    if (bias) arguments.emplace(DNNL_ARG_BIAS, wrap(bias_, bias));
    primitive_.execute(stream, arguments);
  }

 private:
  dnnl::engine engine_;
  dnnl::memory::desc a_, b_, c_, bias_;
  dnnl::matmul primitive_;
};

class CpuOps final : public Ops {
 public:
  CpuOps() : kernels_(best_kernels()), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  void dense_forward(Stream& stream, const DenseForward& a) override {
    const Matmul* product = matmul({a.batch, a.out, a.in, false, true, a.bias != nullptr, a.relu, false});
    as_cpu(stream).enqueue([this, product, a] {
      product->run(stream_, a.x, a.w, a.bias, a.y);
      if (a.dropout.p > 0) kernels_.dropout(a, *a.dropout.step);
    });
  }

  void dense_backward_input(Stream& stream, const DenseBackwardInput& a) override {
    const Matmul* product = matmul({a.batch, a.in, a.out, false, false, false, false, false});
    as_cpu(stream).enqueue([this, product, a] {
      product->run(stream_, a.dy, a.w, nullptr, a.dx);
      kernels_.mask_and_column_sums(a);
    });
  }

  void dense_backward_weight(Stream& stream, const DenseBackwardWeight& a) override {
    const int64_t stride = a.dy_stride ? a.dy_stride : a.out;
    const Matmul* product = matmul({a.out, a.in, a.batch, true, false, false, false, a.accumulate, stride});
    as_cpu(stream).enqueue([this, product, a, stride] {
      product->run(stream_, a.dy, a.x, nullptr, a.dw);
      if (a.dbias) kernels_.column_sums(a.dy, a.dbias, a.batch, a.out, stride, a.accumulate);
    });
  }

  void mse_loss(Stream& stream, const MseLoss& a) override {
    as_cpu(stream).enqueue([this, a] { kernels_.mse_loss(a); });
  }
  void cross_entropy_loss(Stream& stream, const CrossEntropyLoss& a) override {
    as_cpu(stream).enqueue([a] { cpu_cross_entropy_loss(a); });
  }
  void adam_step(Stream& stream, const AdamStep& a) override {
    as_cpu(stream).enqueue([this, a] { kernels_.adam_step(a, *a.step); });
  }
  void sgd_step(Stream& stream, const SgdStep& a) override {
    as_cpu(stream).enqueue([this, a] { kernels_.sgd_step(a); });
  }
  void gather_rows(Stream& stream, const float* table, const int32_t* indices, float* out, int64_t rows,
                   int64_t width) override {
    as_cpu(stream).enqueue([=] { cpu_gather_rows(table, indices, out, rows, width); });
  }
  void increment(Stream& stream, uint64_t* counter) override {
    as_cpu(stream).enqueue([counter] { ++*counter; });
  }

 private:
  const Matmul* matmul(const Product& p) {
    auto& slot = products_[p];
    if (!slot) slot = std::make_unique<Matmul>(engine_, p);
    return slot.get();
  }

  const CpuKernels& kernels_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::map<Product, std::unique_ptr<Matmul>> products_;
};

}  // namespace

std::unique_ptr<Ops> make_cpu_ops(Device&, const OpsOptions& options) {
  if (options.math != MathMode::fp32)
    throw Error(Cause::usage, fmt::format("math mode {} needs a CUDA device; CPU virtual devices compute in fp32",
                                          to_string(options.math)),
                "--math fp32, or --backend cuda");
  return std::make_unique<CpuOps>();
}

Availability cpu_ops_availability() { return {true, {}, {}}; }

std::string cpu_ops_version() {
  const dnnl_version_t* v = dnnl::version();
  return fmt::format("{}.{}.{}", v->major, v->minor, v->patch);
}

}  // namespace amdahl
