#include "ops/gemm/cuda_gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <source_location>

namespace amdahl {
namespace {

constexpr int kMaxCandidates = 16;
constexpr int64_t kCopyRows = 256;  // the smallest k for which a copy of B is tried; below it none was faster

void check(cublasStatus_t status, int device_index, const char* call,
           std::source_location where = std::source_location::current()) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(status == CUBLAS_STATUS_ALLOC_FAILED ? Cause::out_of_memory : Cause::device_error,
              fmt::format("GPU {}: {} failed: {} at cuda_gemm.cpp:{}", device_index, call,
                          cublasLtGetStatusString(status), where.line()));
}

/// Products of 16-bit types are summed in f32 in every mode; the mode is that of f32 operands.
cublasComputeType_t compute_type(MathMode math, DType type) {
  if (type != DType::f32) return CUBLAS_COMPUTE_32F;
  switch (math) {
    case MathMode::fp32:
      return CUBLAS_COMPUTE_32F;
    case MathMode::tf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case MathMode::bf16:
      return CUBLAS_COMPUTE_32F_FAST_16BF;
    case MathMode::fp16:
      return CUBLAS_COMPUTE_32F_FAST_16F;
  }
  return CUBLAS_COMPUTE_32F;
}

cublasLtEpilogue_t epilogue_of(Epilogue epilogue) {
  switch (epilogue) {
    case Epilogue::none:
      return CUBLASLT_EPILOGUE_DEFAULT;
    case Epilogue::bias:
      return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::relu:
      return CUBLASLT_EPILOGUE_RELU;
    case Epilogue::relu_bias:
      return CUBLASLT_EPILOGUE_RELU_BIAS;
    case Epilogue::relu_mask:
      return CUBLASLT_EPILOGUE_RELU_AUX;
    case Epilogue::relu_bias_mask:
      return CUBLASLT_EPILOGUE_RELU_AUX_BIAS;
    case Epilogue::masked:
      return CUBLASLT_EPILOGUE_DRELU;
    case Epilogue::masked_sum:
      return CUBLASLT_EPILOGUE_DRELU_BGRAD;
    case Epilogue::sum_b:
      return CUBLASLT_EPILOGUE_BGRADB;
    case Epilogue::gelu_bias:
      return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case Epilogue::gelu_gradient:
      return CUBLASLT_EPILOGUE_DGELU;
    case Epilogue::gelu_gradient_sum:
      return CUBLASLT_EPILOGUE_DGELU_BGRAD;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

bool uses_gelu(Epilogue epilogue) { return epilogue >= Epilogue::gelu_bias; }

cudaDataType_t data_type(DType type) {
  switch (type) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::f16:
      return CUDA_R_16F;
    default:
      throw Error(Cause::internal, fmt::format("no GEMM of {} on a GPU", to_string(type)), "f32, bf16 or f16");
  }
}

uint32_t alignment_of(const void* pointer) {
  uint32_t alignment = 256;
  while (reinterpret_cast<uintptr_t>(pointer) % alignment != 0) alignment /= 2;
  return alignment;
}

/// Owns one cuBLASLt descriptor.
template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
struct Descriptor {
  Handle handle = nullptr;
  Descriptor() = default;
  ~Descriptor() {
    if (handle) kDestroy(handle);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
};
using Operation = Descriptor<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Descriptor<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Descriptor<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

}  // namespace

struct CudaGemm::Plan {
  Operation operation;
  Layout a, b, d;
  std::vector<cublasLtMatmulHeuristicResult_t> candidates;
  size_t chosen = 0;
  bool tuned = false, launched = false;
  Plan* through_copy = nullptr;  // the same GEMM on a transposed copy of B, where copy and GEMM together are faster

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value, int device_index) {
    check(cublasLtMatmulDescSetAttribute(operation.handle, attribute, &value, sizeof value), device_index,
          "cublasLtMatmulDescSetAttribute");
  }
  void set_pointers(const GemmCall& call, int device_index) {
    if (call.vector) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.vector, device_index);
    if (call.aux) set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, call.aux, device_index);
  }
};

CudaGemm::CudaGemm(int device_index, const OpsOptions& options, CudaTuner& tuner)
    : device_index_(device_index), options_(options), tuner_(tuner) {
  check(cublasLtCreate(&handle_), device_index_, "cublasLtCreate");
}

CudaGemm::~CudaGemm() {
  plans_.clear();
  cublasLtDestroy(handle_);
}

namespace {

void create_layout(Layout& layout, DType type, int64_t rows, int64_t columns, int device_index, int64_t stride) {
  check(cublasLtMatrixLayoutCreate(&layout.handle, data_type(type), static_cast<uint64_t>(rows),
                                   static_cast<uint64_t>(columns), stride ? stride : rows),
        device_index, "cublasLtMatrixLayoutCreate");
}

/// Limits of the algorithms that the heuristics may propose. Deterministic: no split-k that accumulates in the output
/// buffer.
void fill_preference(Preference& preference, const GemmProblem& problem, bool deterministic, int device_index) {
  check(cublasLtMatmulPreferenceCreate(&preference.handle), device_index, "cublasLtMatmulPreferenceCreate");
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference.handle, attribute, &value, sizeof value), device_index,
          "cublasLtMatmulPreferenceSetAttribute");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kGemmWorkspaceBytes / (problem.b_copied ? 2 : 1)});
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem.align_a);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem.align_b);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, problem.align_d);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, problem.align_d);
  if (deterministic)
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
}

}  // namespace

CudaGemm::Plan& CudaGemm::plan_for(GemmCall& call) {
  GemmProblem& p = call.problem;
  p.align_a = alignment_of(call.a);
  p.align_b = alignment_of(call.b);
  p.align_d = alignment_of(call.d);
  p.align_vector = call.vector ? alignment_of(call.vector) : 0;
  p.align_aux = uses_gelu(p.epilogue) ? alignment_of(call.aux) : 0;
  if (const auto found = plans_.find(p); found != plans_.end()) return *found->second;

  auto plan = make_plan(call, compute_type(options_.math, p.type));
  // The fast modes allow lower precision but do not require it: where they have no algorithm (odd row widths), a GEMM
  // without epilogue runs in full f32.
  if (plan->candidates.empty() && p.epilogue == Epilogue::none) plan = make_plan(call, CUBLAS_COMPUTE_32F);
  return *plans_.emplace(p, std::move(plan)).first->second;
}

std::unique_ptr<CudaGemm::Plan> CudaGemm::make_plan(const GemmCall& call, cublasComputeType_t compute) {
  const GemmProblem& p = call.problem;
  auto plan = std::make_unique<Plan>();
  check(cublasLtMatmulDescCreate(&plan->operation.handle, compute, CUDA_R_32F), device_index_,
        "cublasLtMatmulDescCreate");
  plan->set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, device_index_);
  plan->set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, device_index_);
  plan->set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(p.epilogue), device_index_);
  set_epilogue_types(*plan, call);
  if (p.num_sms > 0) plan->set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, int32_t{p.num_sms}, device_index_);
  plan->set_pointers(call, device_index_);
  create_layout(plan->a, p.type, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, device_index_, p.stride_a);
  create_layout(plan->b, p.type, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, device_index_, p.stride_b);
  create_layout(plan->d, p.d_type, p.m, p.n, device_index_, p.stride_d);

  Preference preference;
  fill_preference(preference, p, options_.deterministic, device_index_);
  const int wanted = options_.deterministic ? 1 : kMaxCandidates;
  int returned = 0;
  plan->candidates.resize(static_cast<size_t>(wanted));
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, plan->operation.handle, plan->a.handle, plan->b.handle, plan->d.handle,
                                     plan->d.handle, preference.handle, wanted, plan->candidates.data(), &returned);
  plan->candidates.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<size_t>(returned) : 0);
  std::erase_if(plan->candidates, [](const auto& c) { return c.state != CUBLAS_STATUS_SUCCESS; });
  return plan;
}

// A mask has rows of bits, the input of gelu has columns of m elements. Types are set only where they differ from
// cuBLASLt's defaults, those of D.
void CudaGemm::set_epilogue_types(Plan& plan, const GemmCall& call) {
  const GemmProblem& p = call.problem;
  if (call.aux)
    plan.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, uses_gelu(p.epilogue) ? p.m : mask_row_bits(p.m), device_index_);
  if (uses_gelu(p.epilogue) && p.type != p.d_type)
    plan.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, static_cast<int32_t>(data_type(p.type)), device_index_);
  const bool reads_bias = p.epilogue == Epilogue::bias || p.epilogue == Epilogue::gelu_bias;
  const DType vector_type = reads_bias ? p.type : DType::f32;
  if (call.vector && vector_type != p.d_type)
    plan.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(data_type(vector_type)), device_index_);
}

bool CudaGemm::supports(GemmCall call) { return !plan_for(call).candidates.empty(); }

namespace {

// The tensor cores read tf32 operands from shared memory only if they are contiguous along k. A GEMM with neither
// operand contiguous along k runs on older, slower instructions; transposing one operand first may pay.
bool may_copy(const GemmCall& call, const GemmWorkspace& workspace) {
  const GemmProblem& p = call.problem;
  return p.type == DType::f32 && p.transpose_b && !p.transpose_a && p.k >= kCopyRows &&
         static_cast<size_t>(p.n * p.k) * sizeof(float) <= workspace.bytes / 2 &&
         transposes(static_cast<const float*>(call.b), p.k, p.n, p.stride_b ? p.stride_b : p.n);
}

float* copy_of_b(const GemmWorkspace& workspace) {
  return reinterpret_cast<float*>(static_cast<char*>(workspace.data) + workspace.bytes / 2);
}

GemmCall with_copy(GemmCall call, const GemmWorkspace& workspace) {
  call.problem.transpose_b = false;
  call.problem.stride_b = 0;
  call.problem.b_copied = true;
  call.b = copy_of_b(workspace);
  return call;
}

void copy_b(const KernelLaunch& launch, const GemmCall& call, const GemmWorkspace& workspace) {
  const GemmProblem& p = call.problem;
  launch_transpose(launch, static_cast<const float*>(call.b), p.stride_b ? p.stride_b : p.n, copy_of_b(workspace), p.k,
                   p.n);
}

}  // namespace

void CudaGemm::run(const KernelLaunch& launch, const GemmWorkspace& workspace, GemmCall call, bool may_tune) {
  Plan& plan = plan_for(call);
  if (plan.candidates.empty())
    throw Error(Cause::device_error,
                fmt::format("GPU {}: cuBLASLt has no algorithm for a {}x{}x{} GEMM in {}", device_index_,
                            call.problem.m, call.problem.n, call.problem.k, to_string(options_.math)),
                "another `math` mode");
  if (!plan.tuned && may_tune && !options_.deterministic) {
    if (launch.stream != tuner_.stream()) tuner_.let_finish(launch.stream);
    const double direct_us = tune(plan, call, workspace);
    if (may_copy(call, workspace)) tune_copy(plan, direct_us, launch, call, workspace);
  }
  if (!plan.through_copy) return enqueue(plan, call, workspace, launch.stream);
  copy_b(launch, call, workspace);
  enqueue(*plan.through_copy, with_copy(call, workspace), workspace, launch.stream);
}

void CudaGemm::enqueue(Plan& plan, const GemmCall& call, const GemmWorkspace& workspace, cudaStream_t stream) {
  plan.set_pointers(call, device_index_);
  std::optional<RelaxedCapture> relaxed;  // a first launch may load code, even inside a capture
  if (!plan.launched) relaxed.emplace();
  launch(plan, plan.chosen, call, workspace, stream);
  plan.launched = true;
}

void CudaGemm::launch(const Plan& plan, size_t candidate, const GemmCall& call, const GemmWorkspace& workspace,
                      cudaStream_t stream) {
  const float beta = call.problem.accumulate ? 1.0f : 0.0f;
  const size_t bytes = workspace.bytes / (call.problem.b_copied ? 2 : 1);
  check(cublasLtMatmul(handle_, plan.operation.handle, &call.alpha, call.a, plan.a.handle, call.b, plan.b.handle, &beta,
                       call.d, plan.d.handle, call.d, plan.d.handle, &plan.candidates[candidate].algo, workspace.data,
                       bytes, stream),
        device_index_, "cublasLtMatmul");
}

namespace {

/// Bytes that D spans.
size_t d_bytes(const GemmProblem& p) {
  return static_cast<size_t>((p.stride_d ? p.stride_d : p.m) * p.n) * size_of(p.d_type);
}

}  // namespace

// Uses the real inputs (zeros would run faster), scratch outputs and a workspace of its own, because the caller's is in
// use. Returns the time of the fastest candidate in us.
double CudaGemm::tune(Plan& plan, const GemmCall& call, const GemmWorkspace& workspace) {
  plan.tuned = true;
  const GemmProblem& p = call.problem;
  const size_t vector_floats = static_cast<size_t>(std::max(p.m, p.n));
  const size_t gelu_bytes = p.epilogue == Epilogue::gelu_bias ? static_cast<size_t>(p.m * p.n) * size_of(p.type) : 0;
  const size_t aux_bytes = std::max(static_cast<size_t>(mask_row_bits(p.m) / 8 * p.n), gelu_bytes);
  const TunerMemory d(tuner_, device_index_, d_bytes(p));
  const TunerMemory vector(tuner_, device_index_, vector_floats * sizeof(float));
  const TunerMemory aux(tuner_, device_index_, aux_bytes);
  const TunerMemory own_workspace(tuner_, device_index_, workspace.bytes);
  GemmCall scratch = call;
  scratch.d = d.data();
  const bool writes_aux =
      p.epilogue == Epilogue::relu_mask || p.epilogue == Epilogue::relu_bias_mask || p.epilogue == Epilogue::gelu_bias;
  const bool writes_vector =
      p.epilogue == Epilogue::masked_sum || p.epilogue == Epilogue::sum_b || p.epilogue == Epilogue::gelu_gradient_sum;
  if (writes_aux) scratch.aux = aux.data();
  if (writes_vector) scratch.vector = vector.data();
  plan.set_pointers(scratch, device_index_);
  double best = 1e30;
  for (size_t i = 0; i < plan.candidates.size(); ++i) {
    try {
      const double us = tuner_.time_us([&](cudaStream_t stream) {
        launch(plan, i, scratch, {own_workspace.data(), workspace.bytes}, stream);
      });
      if (us < best) best = us, plan.chosen = i;
    } catch (const Error&) {  // skips a candidate that cuBLASLt proposes but refuses to launch
      if (i + 1 == plan.candidates.size() && best == 1e30) throw;
    }
  }
  return best;
}

void CudaGemm::tune_copy(Plan& plan, double direct_us, const KernelLaunch& launch, const GemmCall& call,
                         const GemmWorkspace& workspace) {
  const TunerMemory memory(tuner_, device_index_, workspace.bytes);
  const TunerMemory d(tuner_, device_index_, d_bytes(call.problem));
  const GemmWorkspace own{memory.data(), workspace.bytes};
  KernelLaunch beside = launch;
  beside.stream = tuner_.stream();
  GemmCall copied = with_copy(call, own);
  copied.d = d.data();
  Plan& other = plan_for(copied);
  if (other.candidates.empty()) return;
  copy_b(beside, call, own);  // real inputs, as in tune()
  if (!other.tuned) tune(other, copied, own);
  const double us = tuner_.time_us([&](cudaStream_t stream) {
    copy_b(beside, call, own);
    this->launch(other, other.chosen, copied, own, stream);
  });
  if (us < direct_us) plan.through_copy = &other;
}

}  // namespace amdahl
