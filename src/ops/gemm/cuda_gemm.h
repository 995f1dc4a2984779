// GEMMs by cuBLASLt with fused epilogues. The algorithm of each problem is chosen once.
//
// Everything here is column-major, as in cuBLASLt: a row-major [R, C] matrix is a column-major C x R one.
#pragma once

#include <cublasLt.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "ops/cuda_kernels.h"
#include "ops/gemm/cuda_tuner.h"
#include "ops/ops.h"

namespace amdahl {

enum class Epilogue {
  none,
  bias,               // + vector
  relu,               // max(0, .)
  relu_bias,          // max(0, . + vector)
  relu_mask,          // relu, and writes the mask
  relu_bias_mask,     // relu_bias, and writes the mask
  masked,             // zero where the mask is clear
  masked_sum,         // masked, and vector = sums over the columns of D
  sum_b,              // vector = sums over k of op(B)
  gelu_bias,          // aux = . + vector, D = gelu(aux)
  gelu_gradient,      // . * gelu'(aux)
  gelu_gradient_sum,  // gelu_gradient, and vector (f32) = sums over the columns of D
};

/// D[m,n] = epilogue(alpha * op(A) op(B) + beta * D). The key by which plans are stored; it includes the alignment of
/// the pointers.
struct GemmProblem {
  int64_t m, n, k;
  bool transpose_a, transpose_b;
  Epilogue epilogue;
  bool accumulate;        // beta = 1, else 0
  int64_t stride_b = 0;   // elements between stored columns of B; 0: dense
  int num_sms = 0;        // SMs available to the GEMM; 0: all
  bool b_copied = false;  // B was copied to the second half of the workspace: only the first half is free
  uint32_t align_a = 0, align_b = 0, align_d = 0, align_vector = 0;
  DType type = DType::f32;             // of A, B, a bias and the input of gelu
  DType d_type = DType::f32;           // of D
  int64_t stride_a = 0, stride_d = 0;  // elements between stored columns; 0: dense
  uint32_t align_aux = 0;              // of the input of gelu
  auto operator<=>(const GemmProblem&) const = default;
};

struct GemmCall {
  GemmProblem problem;  // CudaGemm fills in the alignments
  const void* a;
  const void* b;
  void* d;
  float alpha = 1.0f;
  const void* vector = nullptr;  // read or written, depending on the epilogue
  const void* aux = nullptr;     // a mask or the input of gelu [m,n]: read or written, depending on the epilogue
};

struct GemmWorkspace {
  void* data = nullptr;
  size_t bytes = 0;
};

class CudaGemm {
 public:
  CudaGemm(int device_index, const OpsOptions& options, CudaTuner& tuner);
  ~CudaGemm();

  /// Whether cuBLASLt has an algorithm for the call.
  bool supports(GemmCall call);
  /// Enqueues on the launch's stream. `may_tune`: the stream is not being captured, so the algorithms of a new problem
  /// may be timed (with output to scratch memory). Throws Error{device_error} if cuBLASLt has no algorithm.
  void run(const KernelLaunch& launch, const GemmWorkspace& workspace, GemmCall call, bool may_tune);

 private:
  struct Plan;
  Plan& plan_for(GemmCall& call);
  std::unique_ptr<Plan> make_plan(const GemmCall& call, cublasComputeType_t compute);
  void set_epilogue_types(Plan& plan, const GemmCall& call);
  double tune(Plan& plan, const GemmCall& call, const GemmWorkspace& workspace);
  void tune_copy(Plan& plan, double direct_us, const KernelLaunch& launch, const GemmCall& call,
                 const GemmWorkspace& workspace);
  void enqueue(Plan& plan, const GemmCall& call, const GemmWorkspace& workspace, cudaStream_t stream);
  void launch(const Plan& plan, size_t candidate, const GemmCall& call, const GemmWorkspace& workspace,
              cudaStream_t stream);

  int device_index_;
  OpsOptions options_;
  CudaTuner& tuner_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<GemmProblem, std::unique_ptr<Plan>> plans_;
};

inline constexpr size_t kGemmWorkspaceBytes = 64u << 20;

}  // namespace amdahl
