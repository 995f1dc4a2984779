// Versions that a CUDA result depends on.
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "device/device.h"

namespace amdahl {
namespace {

std::string cuda_number(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

}  // namespace

std::map<std::string, std::string> cuda_versions() {
  std::map<std::string, std::string> versions;
  int number = 0;
  if (cudaRuntimeGetVersion(&number) == cudaSuccess && number > 0) versions["cuda"] = cuda_number(number);
  if (cudaDriverGetVersion(&number) == cudaSuccess && number > 0) versions["cuda_driver"] = cuda_number(number);
  if (const size_t cublas = cublasLtGetVersion(); cublas > 0)
    versions["cublas"] = fmt::format("{}.{}.{}", cublas / 10000, cublas % 10000 / 100, cublas % 100);
  return versions;
}

}  // namespace amdahl
