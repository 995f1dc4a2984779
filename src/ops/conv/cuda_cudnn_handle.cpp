#include "ops/conv/cuda_cudnn_handle.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>

#include "ops/gemm/cuda_tuner.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // where cudnn_frontend finds the functions of cuDNN; set once, by open_library
}

namespace amdahl {
namespace {

constexpr const char* kLibrary = "libcudnn.so.9";
constexpr const char* kRemedy = "install cuDNN 9 and put the folder of libcudnn.so.9 on LD_LIBRARY_PATH";

/// The functions that cudnn_frontend leaves to its caller.
struct HandleFunctions {
  decltype(&cudnnCreate) create = nullptr;
  decltype(&cudnnDestroy) destroy = nullptr;
  decltype(&cudnnSetStream) set_stream = nullptr;
  std::string problem;  // why they are not here
};

template <class Function>
void find_function(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(cudnn_frontend::cudnn_dlhandle, name));
}

const HandleFunctions& open_library() {
  static HandleFunctions functions;
  static std::once_flag once;
  std::call_once(once, [] {
    cudnn_frontend::cudnn_dlhandle = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!cudnn_frontend::cudnn_dlhandle) {
      functions.problem = fmt::format("{} does not load: {}", kLibrary, dlerror());
      return;
    }
    find_function(functions.create, "cudnnCreate");
    find_function(functions.destroy, "cudnnDestroy");
    find_function(functions.set_stream, "cudnnSetStream");
    if (!functions.create || !functions.destroy || !functions.set_stream)
      functions.problem = fmt::format("{} lacks functions for handles", kLibrary);
  });
  return functions;
}

}  // namespace

std::unique_ptr<CudnnHandle> CudnnHandle::open(int device_index, Availability& why) {
  const HandleFunctions& functions = open_library();
  if (!functions.problem.empty()) {
    why = {false, functions.problem, kRemedy};
    return nullptr;
  }
  const RelaxedCapture relaxed;
  std::unique_ptr<CudnnHandle> handle(new CudnnHandle(device_index));
  if (const cudnnStatus_t status = functions.create(&handle->handle_); status != CUDNN_STATUS_SUCCESS) {
    handle->handle_ = nullptr;
    why = {false, fmt::format("cuDNN does not start on GPU {} (status {})", device_index, static_cast<int>(status)),
           "a cuDNN 9 that is complete and built for this driver"};
    return nullptr;
  }
  why = {true, {}, {}};
  return handle;
}

CudnnHandle::~CudnnHandle() {
  if (handle_) open_library().destroy(handle_);
}

cudnnHandle_t CudnnHandle::on(cudaStream_t stream) const {
  if (const cudnnStatus_t status = open_library().set_stream(handle_, stream); status != CUDNN_STATUS_SUCCESS)
    throw Error(Cause::device_error,
                fmt::format("GPU {}: cudnnSetStream failed (status {})", device_index_, static_cast<int>(status)));
  return handle_;
}

}  // namespace amdahl
