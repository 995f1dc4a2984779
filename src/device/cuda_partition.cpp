#include "device/cuda_partition.h"

#include <cudaTypedefs.h>
#include <fmt/format.h>

#include "amdahl/error.h"
#include "device/cuda_check.h"
#include "device/partition.h"

namespace amdahl {
namespace {

constexpr int kLeastDriver = 12050;  // cuGreenCtxStreamCreate

/// The driver's functions, looked up by name through the runtime: the binary is not linked with the driver's library,
/// so that it also runs without it.
struct GreenContexts {
  PFN_cuDeviceGetDevResource_v12040 get_resource;
  PFN_cuDevSmResourceSplitByCount_v12040 split;
  PFN_cuDevResourceGenerateDesc_v12040 describe;
  PFN_cuGreenCtxCreate_v12040 create;
  PFN_cuGreenCtxStreamCreate_v12050 create_stream;
  PFN_cuGreenCtxDestroy_v12040 destroy;
  PFN_cuGetErrorString_v6000 error_text;
};

template <class Function>
void find(Function& function, const char* name, int device_index) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  cuda_check(cudaGetDriverEntryPointByVersion(name, &found, kLeastDriver, cudaEnableDefault, &result), device_index,
             name);
  if (!found || result != cudaDriverEntryPointSuccess)
    throw Error(Cause::environment_missing, fmt::format("GPU {}: the driver has no {}", device_index, name),
                "a driver of CUDA 12.5 or newer, or no `limit_sms`");
  function = reinterpret_cast<Function>(found);
}

GreenContexts find_functions(int device_index) {
  int driver = 0;
  cuda_check(cudaDriverGetVersion(&driver), device_index, "cudaDriverGetVersion");
  if (driver < kLeastDriver)
    throw Error(Cause::environment_missing,
                fmt::format("GPU {} cannot be divided: its driver is of CUDA {}.{}", device_index, driver / 1000,
                            driver % 1000 / 10),
                "a driver of CUDA 12.5 or newer, or no `limit_sms`");
  GreenContexts found{};
  find(found.get_resource, "cuDeviceGetDevResource", device_index);
  find(found.split, "cuDevSmResourceSplitByCount", device_index);
  find(found.describe, "cuDevResourceGenerateDesc", device_index);
  find(found.create, "cuGreenCtxCreate", device_index);
  find(found.create_stream, "cuGreenCtxStreamCreate", device_index);
  find(found.destroy, "cuGreenCtxDestroy", device_index);
  find(found.error_text, "cuGetErrorString", device_index);
  return found;
}

void check(const GreenContexts& driver, CUresult code, int device_index, const char* call) {
  if (code == CUDA_SUCCESS) return;
  const char* text = nullptr;
  if (driver.error_text(code, &text) != CUDA_SUCCESS || !text) text = "unknown error";
  throw Error(code == CUDA_ERROR_NOT_SUPPORTED ? Cause::environment_missing : Cause::device_error,
              fmt::format("GPU {} cannot be divided: {} failed: {}", device_index, call, text),
              "another share, or no `limit_sms`");
}

/// Smallest partition and granularity by architecture, from the driver's documentation, because drivers before CUDA 13
/// do not report them. The actual size of a partition is read back.
struct SmGroups {
  int least, step;
};
SmGroups groups_of(int device_index) {
  const int major = cuda_attribute(device_index, cudaDevAttrComputeCapabilityMajor);
  if (major >= 9) return {8, 8};
  return major == 8 ? SmGroups{4, 2} : SmGroups{2, 2};
}

/// Splits off `parts` groups of at least `least` multiprocessors each.
std::vector<CUdevResource> split(const GreenContexts& driver, int device_index, unsigned parts, int least) {
  const CUdevice device = device_index;  // the runtime numbers devices as the driver does
  CUdevResource all{};
  check(driver, driver.get_resource(device, &all, CU_DEV_RESOURCE_TYPE_SM), device_index, "cuDeviceGetDevResource");
  std::vector<CUdevResource> found(parts);
  unsigned made = parts;
  check(driver, driver.split(found.data(), &made, &all, nullptr, 0, static_cast<unsigned>(least)), device_index,
        "cuDevSmResourceSplitByCount");
  if (made != parts)
    throw Error(Cause::environment_missing,
                fmt::format("GPU {} has {} partitions of {} multiprocessors, and {} are wanted", device_index, made,
                            least, parts),
                "smaller shares");
  return found;
}

}  // namespace

CudaPartition::CudaPartition(int device_index, std::vector<CUdevResource> groups) : device_index_(device_index) {
  const GreenContexts driver = find_functions(device_index);
  CUdevResourceDesc description = nullptr;
  check(driver, driver.describe(&description, groups.data(), static_cast<unsigned>(groups.size())), device_index,
        "cuDevResourceGenerateDesc");
  check(driver, driver.create(&context_, description, device_index, CU_GREEN_CTX_DEFAULT_STREAM), device_index,
        "cuGreenCtxCreate");
  for (const CUdevResource& group : groups) num_sms_ += static_cast<int>(group.sm.smCount);
}

CudaPartition::~CudaPartition() {
  void* destroy = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  if (cudaGetDriverEntryPointByVersion("cuGreenCtxDestroy", &destroy, kLeastDriver, cudaEnableDefault, &result) ==
          cudaSuccess &&
      destroy)
    reinterpret_cast<PFN_cuGreenCtxDestroy_v12040>(destroy)(context_);
  cudaGetLastError();
}

cudaStream_t CudaPartition::make_stream(int priority) const {
  const GreenContexts driver = find_functions(device_index_);
  CUstream stream = nullptr;
  check(driver, driver.create_stream(&stream, context_, CU_STREAM_NON_BLOCKING, priority), device_index_,
        "cuGreenCtxStreamCreate");
  return stream;
}

std::vector<std::shared_ptr<const CudaPartition>> divide_gpu(int device_index, const std::vector<double>& shares) {
  const GreenContexts driver = find_functions(device_index);
  const int all_sms = cuda_attribute(device_index, cudaDevAttrMultiProcessorCount);
  const SmGroups groups = groups_of(device_index);
  std::vector<int> sizes;
  for (const double share : shares) sizes.push_back(partition_size(share, all_sms, groups.least, groups.step));
  std::vector<std::shared_ptr<const CudaPartition>> parts;
  if (sizes.size() == 1) {
    parts.push_back(std::make_shared<CudaPartition>(device_index, split(driver, device_index, 1, sizes.front())));
    return parts;
  }
  // The remainder of a split cannot be split again, but groups of one split can be combined.
  const auto groups_in = [&](int size) { return (size + groups.least - 1) / groups.least; };
  int needed = 0;
  for (const int size : sizes) needed += groups_in(size);
  const std::vector<CUdevResource> all = split(driver, device_index, static_cast<unsigned>(needed), groups.least);
  auto next = all.begin();
  for (const int size : sizes) {
    parts.push_back(
        std::make_shared<CudaPartition>(device_index, std::vector<CUdevResource>(next, next + groups_in(size))));
    next += groups_in(size);
  }
  return parts;
}

}  // namespace amdahl
