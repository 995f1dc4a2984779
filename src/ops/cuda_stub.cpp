// Built when the CUDA toolkit is missing.
#include "ops/ops.h"
#include "ops/sequence/peer_norm.h"

namespace amdahl {

std::unique_ptr<Ops> make_cuda_ops(Device&, const OpsOptions&) {
  throw Error(Cause::environment_missing, "CUDA operations are not in this build",
              "install the CUDA toolkit and configure with -DAMDAHL_CUDA=ON");
}

std::unique_ptr<PeerNorm> make_cuda_peer_norm(Device&, SymmetricHeap&, const PeerNormSize&) {
  throw Error(Cause::environment_missing, "CUDA operations are not in this build",
              "install the CUDA toolkit and configure with -DAMDAHL_CUDA=ON");
}

}  // namespace amdahl
