// A profiler for tests, which NVTX loads by NVTX_INJECTION64_PATH: writes every push and pop of a named domain to the
// file of AMDAHL_NVTX_LOG, in the order in which they occur. One a line, fields separated by tabs:
//   push THREAD DOMAIN NAME PAYLOAD      PAYLOAD: 0 without one
//   pop  THREAD DOMAIN
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

struct Domain {
  const char* name;
};

void write(const char* what, const Domain* domain, const nvtxEventAttributes_t* attributes) {
  static std::mutex mutex;
  static FILE* const file = std::fopen(std::getenv("AMDAHL_NVTX_LOG"), "w");
  static int threads = 0;
  thread_local int thread = -1;
  const std::lock_guard<std::mutex> lock(mutex);
  if (file == nullptr) return;
  if (thread < 0) thread = threads++;
  std::fprintf(file, "%s\t%d\t%s", what, thread, domain->name);
  if (attributes != nullptr)
    std::fprintf(
        file, "\t%s\t%lld", attributes->message.ascii,
        attributes->payloadType == NVTX_PAYLOAD_TYPE_INT64 ? static_cast<long long>(attributes->payload.llValue) : 0);
  std::fputc('\n', file);
  std::fflush(file);
}

const Domain* named(nvtxDomainHandle_t domain) { return reinterpret_cast<const Domain*>(domain); }

nvtxDomainHandle_t create(const char* name) { return reinterpret_cast<nvtxDomainHandle_t>(new Domain{name}); }
int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  write("push", named(domain), attributes);
  return 0;
}
int pop(nvtxDomainHandle_t domain) {
  write("pop", named(domain), nullptr);
  return 0;
}

template <typename Function>
void set(NvtxFunctionTable table, unsigned size, unsigned id, Function* function) {
  if (id < size) *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  set(table, size, NVTX_CBID_CORE2_DomainCreateA, create);
  set(table, size, NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(table, size, NVTX_CBID_CORE2_DomainRangePop, pop);
  return 1;
}
