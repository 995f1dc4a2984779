// Built when oneDNN is missing.
#include "ops/cpu_ops.h"

namespace amdahl {

Availability cpu_ops_availability() {
  return {false, "built without oneDNN", "apt-get install libdnnl-dev, then configure again"};
}
std::string cpu_ops_version() { return {}; }

std::unique_ptr<GemmOps> make_cpu_gemm_ops() {
  const Availability missing = cpu_ops_availability();
  throw Error(Cause::environment_missing, "CPU virtual devices cannot compute: " + missing.reason, missing.remedy);
}

}  // namespace amdahl
