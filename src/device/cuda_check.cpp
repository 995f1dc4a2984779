#include "device/cuda_check.h"

#include <fmt/format.h>

#include <filesystem>

#include "amdahl/error.h"

namespace amdahl {
namespace {

struct Meaning {
  Cause cause;
  const char* remedy;
};

Meaning meaning_of(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return {Cause::out_of_memory, "a smaller model or batch, or more GPUs"};
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      return {Cause::environment_missing, "check nvidia-smi and CUDA_VISIBLE_DEVICES"};
    case cudaErrorNoKernelImageForDevice:
      return {Cause::environment_missing, "build with -DCMAKE_CUDA_ARCHITECTURES set to this GPU"};
    case cudaErrorECCUncorrectable:
    case cudaErrorHardwareStackError:
      return {Cause::device_error, "this GPU has a hardware fault: look at dmesg and use another one"};
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorLaunchFailure:
      return {Cause::device_error, "run under compute-sanitizer, and report it: the process must be restarted"};
    default:
      return {Cause::device_error, ""};
  }
}

}  // namespace

void cuda_check(cudaError_t code, int device_index, const char* call, std::source_location where) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  const Meaning meaning = meaning_of(code);
  throw Error(
      meaning.cause,
      fmt::format("GPU {}: {} failed: {} ({}) at {}:{}", device_index, call, cudaGetErrorString(code),
                  cudaGetErrorName(code), std::filesystem::path(where.file_name()).filename().string(), where.line()),
      meaning.remedy);
}

int cuda_attribute(int device_index, cudaDeviceAttr attribute) {
  int value = 0;
  cuda_check(cudaDeviceGetAttribute(&value, attribute, device_index), device_index, "cudaDeviceGetAttribute");
  return value;
}

}  // namespace amdahl
