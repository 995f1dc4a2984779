// Replaces nccl_communicator.cpp in a build without CUDA.
#include "comm/world.h"

namespace amdahl {
namespace {

constexpr const char* kReason = "built without CUDA";
constexpr const char* kRemedy = "install the CUDA toolkit (nvcc) and build with -DAMDAHL_CUDA=ON";

}  // namespace

Availability nccl_availability() { return {false, kReason, kRemedy}; }
std::string nccl_version() { return {}; }

std::unique_ptr<Communicator> make_nccl_communicator(RendezvousStore&, const std::string&, const RankGroup&, Device&,
                                                     double) {
  throw Error(Cause::environment_missing, std::string("NCCL: ") + kReason, kRemedy);
}

std::vector<std::unique_ptr<Communicator>> make_nccl_communicators(const std::vector<Device*>&, double) {
  throw Error(Cause::environment_missing, std::string("NCCL: ") + kReason, kRemedy);
}

}  // namespace amdahl
