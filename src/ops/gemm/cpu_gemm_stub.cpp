// Built when oneDNN is missing.
#include "ops/cpu_ops.h"

namespace amdahl {

Availability cpu_ops_availability() {
  return {false, "built without oneDNN", "apt-get install libdnnl-dev, then configure again"};
}
std::string cpu_ops_version() { return {}; }

namespace {
[[noreturn]] void throw_missing() {
  const Availability missing = cpu_ops_availability();
  throw Error(Cause::environment_missing, "CPU virtual devices cannot compute: " + missing.reason, missing.remedy);
}
}  // namespace

std::unique_ptr<GemmOps> make_cpu_gemm_ops() { throw_missing(); }
std::unique_ptr<MatMulOps> make_cpu_matmul_ops() { throw_missing(); }
std::unique_ptr<AttentionOps> make_cpu_attention_ops() { throw_missing(); }
std::unique_ptr<RecurrentOps> make_cpu_recurrent_ops() { throw_missing(); }
std::unique_ptr<ConvOps> make_cpu_conv_ops() { throw_missing(); }

}  // namespace amdahl
