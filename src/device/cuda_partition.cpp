#include "device/cuda_partition.h"

#include <cudaTypedefs.h>
#include <fmt/format.h>

#include "amdahl/error.h"
#include "device/cuda_check.h"
#include "device/partition.h"

namespace amdahl {
namespace {

constexpr int kLeastDriver = 12050;  // cuGreenCtxStreamCreate

/// The driver's functions by name, through the runtime: nothing links the driver's library, so that one binary runs
/// with and without it.
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
                "a driver of CUDA 12.5 or newer, or no --hold-back");
  function = reinterpret_cast<Function>(found);
}

GreenContexts find_functions(int device_index) {
  int driver = 0;
  cuda_check(cudaDriverGetVersion(&driver), device_index, "cudaDriverGetVersion");
  if (driver < kLeastDriver)
    throw Error(Cause::environment_missing,
                fmt::format("GPU {} cannot be divided: its driver is of CUDA {}.{}", device_index, driver / 1000,
                            driver % 1000 / 10),
                "a driver of CUDA 12.5 or newer, or no --hold-back");
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
              "another share, or no --hold-back");
}

/// The smallest part and the steps above it, as the driver's documentation gives them for each architecture; drivers
/// before CUDA 13 do not say. What they make of a number is read back.
struct SmGroups {
  int least, step;
};
SmGroups groups_of(int device_index) {
  const int major = cuda_attribute(device_index, cudaDevAttrComputeCapabilityMajor);
  if (major >= 9) return {8, 8};
  return major == 8 ? SmGroups{4, 2} : SmGroups{2, 2};
}

}  // namespace

CudaPartition::CudaPartition(int device_index, int all_sms, double share) : device_index_(device_index) {
  const GreenContexts driver = find_functions(device_index);
  const CUdevice device = device_index;  // the runtime numbers devices as the driver does
  CUdevResource all{};
  check(driver, driver.get_resource(device, &all, CU_DEV_RESOURCE_TYPE_SM), device_index, "cuDeviceGetDevResource");
  const SmGroups groups = groups_of(device_index);
  const int wanted = partition_size(share, all_sms, groups.least, groups.step);
  CUdevResource part{};
  unsigned num_parts = 1;
  check(driver, driver.split(&part, &num_parts, &all, nullptr, 0, static_cast<unsigned>(wanted)), device_index,
        "cuDevSmResourceSplitByCount");
  if (num_parts != 1)
    throw Error(Cause::environment_missing,
                fmt::format("GPU {} has no part of {} multiprocessors", device_index, wanted), "another share");
  CUdevResourceDesc description = nullptr;
  check(driver, driver.describe(&description, &part, 1), device_index, "cuDevResourceGenerateDesc");
  check(driver, driver.create(&context_, description, device, CU_GREEN_CTX_DEFAULT_STREAM), device_index,
        "cuGreenCtxCreate");
  num_sms_ = static_cast<int>(part.sm.smCount);
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

}  // namespace amdahl
