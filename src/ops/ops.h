// Ops: the device operations that models are made of, one family per kind of work. A family has one implementation per
// backend; all give the same results within tolerance. To replace a family, implement its interface and construct it
// where the backend's Ops are made (make_cpu_ops, make_cuda_ops); the parity tests then cover it.
//
// Every call enqueues on `stream` and returns; pointers are device pointers of that stream's device and stay valid
// until the work is done.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "amdahl/plan.h"
#include "ops/attention/attention_ops.h"
#include "ops/compression_ops.h"
#include "ops/conv/conv_ops.h"
#include "ops/elementwise_ops.h"
#include "ops/gemm/gemm_ops.h"
#include "ops/gemm/matmul_ops.h"
#include "ops/loss_ops.h"
#include "ops/optimizer/optimizer_ops.h"
#include "ops/recurrent/recurrent_ops.h"
#include "ops/sequence/norm_ops.h"
#include "ops/sequence/sequence_ops.h"
#include "plan/math_mode.h"

namespace amdahl {

class Ops {
 public:
  struct Families {
    std::unique_ptr<GemmOps> gemm;
    std::unique_ptr<ElementwiseOps> elementwise;
    std::unique_ptr<LossOps> loss;
    std::unique_ptr<OptimizerOps> optimizer;
    std::unique_ptr<MatMulOps> matmul{};
    std::unique_ptr<NormOps> norm{};
    std::unique_ptr<AttentionOps> attention{};
    std::unique_ptr<SequenceOps> sequence{};
    std::unique_ptr<RecurrentOps> recurrent{};
    std::unique_ptr<ConvOps> conv{};
    std::unique_ptr<CompressionOps> compression{};
    MathMode math = MathMode::fp32;
    /// Whether work on a second stream runs concurrently with the first on otherwise idle resources: true on GPUs,
    /// false where one stream is a thread that stands for the whole device.
    bool gains_from_second_stream = false;
  };
  explicit Ops(Families families) : families_(std::move(families)) {}

  GemmOps& gemm() { return *families_.gemm; }
  const GemmOps& gemm() const { return *families_.gemm; }
  ElementwiseOps& elementwise() { return *families_.elementwise; }
  LossOps& loss() { return *families_.loss; }
  OptimizerOps& optimizer() { return *families_.optimizer; }
  MatMulOps& matmul() { return present(families_.matmul, "matrix products"); }
  NormOps& norm() { return present(families_.norm, "normalisation"); }
  AttentionOps& attention() { return present(families_.attention, "attention"); }
  SequenceOps& sequence() { return present(families_.sequence, "sequences"); }
  RecurrentOps& recurrent() { return present(families_.recurrent, "recurrent layers"); }
  ConvOps& conv() { return present(families_.conv, "convolutions"); }
  CompressionOps& compression() { return present(families_.compression, "compression"); }
  MathMode math() const { return families_.math; }
  /// What layers convert parameters and activations to before a GEMM.
  DType compute_type() const { return compute_type_of(math()); }
  bool gains_from_second_stream() const { return families_.gains_from_second_stream; }

 private:
  template <class Family>
  static Family& present(const std::unique_ptr<Family>& family, const char* what) {
    if (!family)
      throw Error(Cause::environment_missing, std::string("this build has no operations for ") + what,
                  "a build with the library that the model needs; amdahl info lists what is missing");
    return *family;
  }
  Families families_;
};

/// Ops may time alternatives at the first use of a problem outside a capture: run each step once eagerly before
/// capturing or timing it.
struct OpsOptions {
  MathMode math = MathMode::fp32;
  bool deterministic = false;  // only algorithms that give bit-equal reruns
};

/// A device's Ops, created on first use: a measurement that needs no Ops runs without the library behind them. Copies
/// refer to the same Ops.
class OpsOnDemand {
 public:
  OpsOnDemand(Ops& made) : find_([&made]() -> Ops& { return made; }) {}  // NOLINT(google-explicit-constructor)
  explicit OpsOnDemand(std::function<Ops&()> find) : find_(std::move(find)) {}
  Ops& operator*() const { return find_(); }
  Ops* operator->() const { return &find_(); }

 private:
  std::function<Ops&()> find_;
};

/// Throws Error{usage} for a math mode that the backend lacks (CPU has fp32 and fp16).
std::unique_ptr<Ops> make_cpu_ops(Device& device, const OpsOptions& options);
std::unique_ptr<Ops> make_cuda_ops(Device& device, const OpsOptions& options);
Availability cpu_ops_availability();
std::string cpu_ops_version();  // oneDNN's, empty when unavailable

}  // namespace amdahl
