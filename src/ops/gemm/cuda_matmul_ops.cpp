// Products of typed matrices on CUDA: cuBLASLt with its fused epilogues, or a plain GEMM and own kernels. The faster is
// chosen by timing, once per problem.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "ops/cuda_method_choices.h"
#include "ops/gemm/cuda_matmul.h"
#include "ops/gemm/cuda_matmul_probe.h"

namespace amdahl {
namespace {

/// What the choice between fused and separate kernels depends on.
struct MatMulKey {
  MatMulEpilogue epilogue;
  DType type, c_type;
  int64_t m, n, k;
  bool transpose_a, transpose_b, sums, accumulate, accumulate_dbias;
  int64_t stride_a, stride_b, stride_c;
  auto operator<=>(const MatMulKey&) const = default;
};

MatMulKey key_of(const MatMul& a) {
  return {a.epilogue,
          a.type,
          a.c_type,
          a.m,
          a.n,
          a.k,
          a.transpose_a,
          a.transpose_b,
          a.dbias != nullptr,
          a.accumulate,
          a.accumulate_dbias,
          a.stride_a,
          a.stride_b,
          a.stride_c};
}

std::string describe(const MatMulKey& key, const Choice& choice) {
  static constexpr std::array<const char*, 5> kNames{"product", "product+bias", "product+bias+gelu",
                                                     "product*gelu-gradient", "product+row-sums"};
  return fmt::format("{} {}x{}x{} {}{}{}: {} (fused {:.2f} us, separate {:.2f} us)",
                     kNames[static_cast<size_t>(key.epilogue)], key.m, key.n, key.k, to_string(key.type),
                     key.sums ? " sums" : "", key.accumulate ? " accumulate" : "",
                     choice.method == Method::fused ? "fused" : "separate", choice.fused_us, choice.separate_us);
}

bool is_float(DType type) { return type == DType::f32 || type == DType::bf16 || type == DType::f16; }

void check_call(const MatMul& a) {
  const auto fail = [](const char* what) { throw Error(Cause::internal, std::string("matmul: ") + what); };
  if (!is_float(a.type) || (a.c_type != a.type && a.c_type != DType::f32)) fail("types other than f32, bf16 and f16");
  const bool sums_rows = a.epilogue == MatMulEpilogue::sum_rows_of_a;
  if (a.accumulate && a.epilogue != MatMulEpilogue::none && !sums_rows) fail("this epilogue does not accumulate");
  if (sums_rows && (!a.dbias || !a.transpose_a)) fail("sums over k are those of a transposed a, into dbias");
  const bool biased = a.epilogue == MatMulEpilogue::bias || a.epilogue == MatMulEpilogue::bias_gelu;
  if (biased && !a.bias) fail("no bias");
  const bool gelu = a.epilogue == MatMulEpilogue::bias_gelu || a.epilogue == MatMulEpilogue::gelu_gradient;
  if (gelu && !a.aux) fail("no aux");
}

class CudaMatMulOps final : public MatMulOps {
 public:
  explicit CudaMatMulOps(std::shared_ptr<CudaContext> context) : context_(std::move(context)), choices_(context_) {}

  void matmul(Stream& stream, const MatMul& a) override;
  void convert(Stream& stream, const float* from, void* to, DType type, int64_t count) override {
    launch_convert(context_->begin(stream).launch, from, to, type, count);
  }
  void column_sums(Stream& stream, const void* x, DType type, float* out, int64_t rows, int64_t width,
                   bool accumulate) override {
    launch_column_sums(context_->begin(stream).launch,
                       {.x = x, .type = type, .out = out, .rows = rows, .width = width, .accumulate = accumulate});
  }
  void activate(Stream& stream, const Activate& a) override { launch_activate(context_->begin(stream).launch, a); }
  void activate_gradient(Stream& stream, const ActivateGradient& a) override {
    launch_activate_gradient(context_->begin(stream).launch, a);
  }

 private:
  bool fused_works(const MatMul& a, const StreamMemory& memory);
  GemmCall fused_call(const MatMul& a, const StreamMemory& memory);
  bool sums_are_fused(const MatMul& a, const StreamMemory& memory);
  bool probe(const MatMul& a, bool may_run);
  void run(const StreamMemory& memory, const MatMul& a, Method method, bool may_tune);
  void run_fused(const StreamMemory& memory, const MatMul& a, bool may_tune);
  void run_separate(const StreamMemory& memory, const MatMul& a, bool may_tune);
  void gemm(const StreamMemory& memory, const GemmCall& call, bool may_tune) {
    context_->gemm().run(memory.launch, memory.workspace, call, may_tune);
  }

  std::shared_ptr<CudaContext> context_;
  MethodChoices<MatMulKey> choices_;
  std::map<std::array<int, 4>, bool> probed_;
};

// Row-major c[m,n] = op(a) op(b) is column-major c(n,m) = op(b)(n,k) op(a)(k,m).
GemmCall call_of(const MatMul& a, Epilogue epilogue) {
  GemmCall call{{a.n, a.m, a.k, a.transpose_b, a.transpose_a, epilogue, a.accumulate}, a.b, a.a, a.c};
  GemmProblem& p = call.problem;
  p.type = a.type, p.d_type = a.c_type;
  p.stride_a = a.stride_b, p.stride_b = a.stride_a, p.stride_d = a.stride_c;
  return call;
}

ProductEpilogue epilogue_of(const MatMul& a) {
  return {a.c, a.aux, a.bias, a.dbias, a.m, a.n, a.stride_c ? a.stride_c : a.n, a.type, a.c_type, a.accumulate_dbias};
}

/// Sums that are accumulated go through scratch memory, because cuBLASLt overwrites them.
float* sums_of(const MatMul& a, const StreamMemory& memory) {
  return a.accumulate_dbias ? memory.launch.scratch.temp : a.dbias;
}

/// Whether cuBLASLt itself takes the column sums of gelu's gradient.
bool CudaMatMulOps::sums_are_fused(const MatMul& a, const StreamMemory& memory) {
  if (context_->options().deterministic || !a.dbias || a.n > KernelScratch::kTempFloats) return false;
  GemmCall call = call_of(a, Epilogue::gelu_gradient_sum);
  call.vector = sums_of(a, memory);
  call.aux = a.aux;
  return context_->gemm().supports(call);
}

GemmCall CudaMatMulOps::fused_call(const MatMul& a, const StreamMemory& memory) {
  switch (a.epilogue) {
    case MatMulEpilogue::none:
      break;
    case MatMulEpilogue::bias:
    case MatMulEpilogue::bias_gelu: {
      const bool gelu = a.epilogue == MatMulEpilogue::bias_gelu;
      GemmCall call = call_of(a, gelu ? Epilogue::gelu_bias : Epilogue::bias);
      call.vector = a.bias;
      if (gelu) call.aux = a.aux;
      return call;
    }
    case MatMulEpilogue::gelu_gradient: {
      const bool sums = sums_are_fused(a, memory);
      GemmCall call = call_of(a, sums ? Epilogue::gelu_gradient_sum : Epilogue::gelu_gradient);
      if (sums) call.vector = sums_of(a, memory);
      call.aux = a.aux;
      return call;
    }
    case MatMulEpilogue::sum_rows_of_a: {
      GemmCall call = call_of(a, Epilogue::sum_b);
      call.vector = sums_of(a, memory);
      return call;
    }
  }
  return call_of(a, Epilogue::none);
}

bool CudaMatMulOps::fused_works(const MatMul& a, const StreamMemory& memory) {
  const bool gelu = a.epilogue == MatMulEpilogue::bias_gelu || a.epilogue == MatMulEpilogue::gelu_gradient;
  if (gelu && a.n % 8 != 0) return false;  // cuBLASLt needs that of aux
  if (a.epilogue == MatMulEpilogue::sum_rows_of_a &&
      (context_->options().deterministic || a.m > KernelScratch::kTempFloats))
    return false;
  return context_->gemm().supports(fused_call(a, memory));
}

void CudaMatMulOps::run_fused(const StreamMemory& memory, const MatMul& a, bool may_tune) {
  const GemmCall call = fused_call(a, memory);
  gemm(memory, call, may_tune);
  if (!a.dbias) return;
  const bool sums_columns = call.problem.epilogue == Epilogue::gelu_gradient_sum;
  if (a.epilogue == MatMulEpilogue::gelu_gradient && !sums_columns)
    return launch_column_sums(memory.launch, {.x = a.c,
                                              .type = a.c_type,
                                              .out = a.dbias,
                                              .rows = a.m,
                                              .width = a.n,
                                              .stride = a.stride_c,
                                              .accumulate = a.accumulate_dbias});
  if (a.accumulate_dbias) launch_add(memory.launch, a.dbias, memory.launch.scratch.temp, sums_columns ? a.n : a.m);
}

void CudaMatMulOps::run_separate(const StreamMemory& memory, const MatMul& a, bool may_tune) {
  GemmCall call = call_of(a, Epilogue::none);
  if (a.epilogue == MatMulEpilogue::bias_gelu) {  // the product has the place of aux
    call.d = a.aux;
    call.problem.d_type = a.type;
    call.problem.stride_d = 0;
  }
  gemm(memory, call, may_tune);
  switch (a.epilogue) {
    case MatMulEpilogue::none:
      return;
    case MatMulEpilogue::bias:
      return launch_bias(memory.launch, epilogue_of(a));
    case MatMulEpilogue::bias_gelu:
      return launch_bias_gelu(memory.launch, epilogue_of(a));
    case MatMulEpilogue::gelu_gradient:
      return launch_gelu_gradient(memory.launch, epilogue_of(a));
    case MatMulEpilogue::sum_rows_of_a:
      return launch_column_sums(memory.launch, {.x = a.a,
                                                .type = a.type,
                                                .out = a.dbias,
                                                .rows = a.k,
                                                .width = a.m,
                                                .stride = a.stride_a,
                                                .accumulate = a.accumulate_dbias});
  }
}

void CudaMatMulOps::run(const StreamMemory& memory, const MatMul& a, Method method, bool may_tune) {
  method == Method::fused ? run_fused(memory, a, may_tune) : run_separate(memory, a, may_tune);
}

/// Whether the fused epilogue of these types does what matmul_ops.h specifies; false while unknown inside a capture,
/// where `may_run` is false.
bool CudaMatMulOps::probe(const MatMul& a, bool may_run) {
  const std::array<int, 4> kind{static_cast<int>(a.epilogue), static_cast<int>(a.type), static_cast<int>(a.c_type),
                                a.dbias != nullptr};
  if (const auto found = probed_.find(kind); found != probed_.end()) return found->second;
  if (!may_run) return false;
  const StreamMemory& memory = context_->tuner_memory();
  const bool works = probe_epilogue(context_->tuner(), context_->index(), a, [&](const MatMul& small, bool fused) {
    if (fused && !fused_works(small, memory)) return false;
    run(memory, small, fused ? Method::fused : Method::separate, false);
    return true;
  });
  return probed_[kind] = works;
}

size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

void CudaMatMulOps::matmul(Stream& stream, const MatMul& a) {
  check_call(a);
  if (a.m * a.n == 0) return;
  StreamMemory& own = context_->begin(stream);
  const bool may_tune = !is_capturing(stream);
  if (a.epilogue == MatMulEpilogue::none) return gemm(own, call_of(a, Epilogue::none), may_tune);
  Method method = Method::separate;
  if (fused_works(a, own) && probe(a, may_tune)) method = Method::fused;
  // A bias alone is never slower when fused.
  if (method == Method::fused && a.epilogue != MatMulEpilogue::bias) {
    const size_t c_bytes = rounded(static_cast<size_t>((a.stride_c ? a.stride_c : a.n) * a.m) * size_of(a.c_type));
    const bool writes_aux = a.epilogue == MatMulEpilogue::bias_gelu;
    const size_t aux_bytes = writes_aux ? rounded(static_cast<size_t>(a.m * a.n) * size_of(a.type)) : 0;
    const size_t sum_bytes = static_cast<size_t>(std::max(a.m, a.n)) * sizeof(float);
    const auto run_either = [&](Method either, const StreamMemory& memory, float* scratch, bool tunes) {
      MatMul call = a;
      char* bytes = reinterpret_cast<char*>(scratch);
      call.c = bytes;
      if (writes_aux) call.aux = bytes + c_bytes;
      if (a.dbias) call.dbias = reinterpret_cast<float*>(bytes + c_bytes + aux_bytes);
      run(memory, call, either, tunes);
    };
    method = choices_.choose(stream, key_of(a), c_bytes + aux_bytes + sum_bytes, run_either);
  }
  run(own, a, method, may_tune);
}

}  // namespace

std::unique_ptr<MatMulOps> make_cuda_matmul_ops(std::shared_ptr<CudaContext> context) {
  return std::make_unique<CudaMatMulOps>(std::move(context));
}

}  // namespace amdahl
