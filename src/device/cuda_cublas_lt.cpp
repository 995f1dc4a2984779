// The functions of cuBLASLt that amdahl calls, forwarded to libcublasLt, which is opened at the first call: a program
// or wheel built with CUDA also starts where that library is missing, and takes the copy that a process has loaded
// already.
#include <cublasLt.h>
#include <dlfcn.h>

#include <string>

namespace {

#define AMDAHL_TEXT_OF(number) #number
#define AMDAHL_TEXT(number) AMDAHL_TEXT_OF(number)
constexpr const char* kLibrary = "libcublasLt.so." AMDAHL_TEXT(CUBLAS_VER_MAJOR);
constexpr const char* kOfToolkit = AMDAHL_CUDA_LIBRARIES "/libcublasLt.so." AMDAHL_TEXT(CUBLAS_VER_MAJOR);
constexpr cublasStatus_t kMissing = CUBLAS_STATUS_NOT_INITIALIZED;

void* library() {
  static void* const opened = [] {
    void* found = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    return found ? found : dlopen(kOfToolkit, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  }();
  return opened;
}

/// The function of that name in the library, with the type of `like`; null without it.
template <class Function>
Function* found(const char* name, Function* /*like*/) {
  return library() ? reinterpret_cast<Function*>(dlsym(library(), name)) : nullptr;
}

}  // namespace

#define AMDAHL_FORWARD(function, parameters, arguments)    \
  cublasStatus_t function parameters {                     \
    static auto* const real = found(#function, &function); \
    return real ? real arguments : kMissing;               \
  }

extern "C" {

AMDAHL_FORWARD(cublasLtCreate, (cublasLtHandle_t * handle), (handle))
AMDAHL_FORWARD(cublasLtDestroy, (cublasLtHandle_t handle), (handle))
AMDAHL_FORWARD(cublasLtMatmul,
               (cublasLtHandle_t handle, cublasLtMatmulDesc_t compute, const void* alpha, const void* a,
                cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout, const void* beta,
                const void* c, cublasLtMatrixLayout_t c_layout, void* d, cublasLtMatrixLayout_t d_layout,
                const cublasLtMatmulAlgo_t* algo, void* workspace, size_t bytes, cudaStream_t stream),
               (handle, compute, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, algo, workspace,
                bytes, stream))
AMDAHL_FORWARD(cublasLtMatmulAlgoGetHeuristic,
               (cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                cublasLtMatmulPreference_t preference, int asked, cublasLtMatmulHeuristicResult_t results[],
                int* returned),
               (handle, operation, a, b, c, d, preference, asked, results, returned))
AMDAHL_FORWARD(cublasLtMatmulDescCreate,
               (cublasLtMatmulDesc_t * made, cublasComputeType_t compute, cudaDataType_t scale), (made, compute, scale))
AMDAHL_FORWARD(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t made), (made))
AMDAHL_FORWARD(cublasLtMatmulDescSetAttribute,
               (cublasLtMatmulDesc_t made, cublasLtMatmulDescAttributes_t name, const void* value, size_t bytes),
               (made, name, value, bytes))
AMDAHL_FORWARD(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t * made), (made))
AMDAHL_FORWARD(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t made), (made))
AMDAHL_FORWARD(cublasLtMatmulPreferenceSetAttribute,
               (cublasLtMatmulPreference_t made, cublasLtMatmulPreferenceAttributes_t name, const void* value,
                size_t bytes),
               (made, name, value, bytes))
AMDAHL_FORWARD(cublasLtMatrixLayoutCreate,
               (cublasLtMatrixLayout_t * made, cudaDataType type, uint64_t rows, uint64_t columns, int64_t stride),
               (made, type, rows, columns, stride))
AMDAHL_FORWARD(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t made), (made))

/// 0 without the library.
size_t cublasLtGetVersion() {
  static auto* const real = found("cublasLtGetVersion", &cublasLtGetVersion);
  return real ? real() : 0;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  static auto* const real = found("cublasLtGetStatusString", &cublasLtGetStatusString);
  static const std::string missing =
      std::string(kLibrary) + " does not load: it comes with the CUDA toolkit, and with the package nvidia-cublas";
  return real ? real(status) : missing.c_str();
}

}  // extern "C"
