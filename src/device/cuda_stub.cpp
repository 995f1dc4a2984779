// Replaces cuda_device.cpp in a build without CUDA.
#include "device/device.h"

namespace amdahl {
namespace {

constexpr const char* kReason = "built without CUDA";
constexpr const char* kRemedy = "install the CUDA toolkit (nvcc) and build with -DAMDAHL_CUDA=ON";

}  // namespace

Availability cuda_availability() { return {false, kReason, kRemedy}; }
std::vector<DeviceSpec> list_cuda_devices() { return {}; }
std::vector<PeerAbility> list_cuda_peers() { return {}; }
std::map<std::string, std::string> cuda_versions() { return {}; }

std::vector<std::unique_ptr<Device>> make_cuda_devices(const std::vector<int>&, const std::vector<double>&) {
  throw Error(Cause::environment_missing, kReason, kRemedy);
}

std::unique_ptr<Stream> adopt_cuda_stream(Device&, void*) { throw Error(Cause::environment_missing, kReason, kRemedy); }

}  // namespace amdahl
