// Replaces the CUDA sources in a build without CUDA.
#include "symmetric/one_sided.h"
#include "symmetric/one_sided_loops.h"
#include "symmetric/symmetric_executor.h"

namespace amdahl {
namespace {

[[noreturn]] void refuse() {
  throw Error(Cause::environment_missing, "built without CUDA",
              "install the CUDA toolkit (nvcc) and build with -DAMDAHL_CUDA=ON");
}

}  // namespace

std::unique_ptr<OneSided> make_cuda_p2p_one_sided(Device&, const SymmetricMemory&) { refuse(); }
std::unique_ptr<OneSidedLoops> make_cuda_one_sided_loops(Device&, const SymmetricMemory&) { refuse(); }
SymmetricMemory make_cuda_ipc_memory(Device&, Communicator&, size_t, double) { refuse(); }
size_t cuda_collective_bytes(int) { refuse(); }
// NOLINTNEXTLINE(performance-unnecessary-value-param): the CUDA version keeps it
std::unique_ptr<SymmetricExecutor> make_cuda_executor(Device&, const SymmetricMemory&, std::shared_ptr<Communicator>,
                                                      const RankGroup&, const SymmetricOptions&) {
  refuse();
}

}  // namespace amdahl
