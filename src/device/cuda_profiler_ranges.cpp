#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>

#include "device/profiler_ranges.h"

namespace amdahl {
namespace {

// Created at the first range, when NVTX looks for a profiler; without a profiler it is null and calls return at once.
nvtxDomainHandle_t domain() {
  static nvtxDomainHandle_t const handle = nvtxDomainCreateA("amdahl");
  return handle;
}

nvtxEventAttributes_t named(const char* name) {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  return attributes;
}

}  // namespace

ProfilerRange::ProfilerRange(const char* name) {
  const nvtxEventAttributes_t attributes = named(name);
  nvtxDomainRangePushEx(domain(), &attributes);
}

ProfilerRange::ProfilerRange(const char* name, int64_t payload) {
  nvtxEventAttributes_t attributes = named(name);
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = payload;
  nvtxDomainRangePushEx(domain(), &attributes);
}

ProfilerRange::~ProfilerRange() { nvtxDomainRangePop(domain()); }

// Without a profiler both calls fail, without consequences.
ProfilerCapture::ProfilerCapture(bool active) : active_(active) {
  if (active_) static_cast<void>(cudaProfilerStart());
}
ProfilerCapture::~ProfilerCapture() {
  if (active_) static_cast<void>(cudaProfilerStop());
}

}  // namespace amdahl
