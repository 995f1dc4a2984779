#include "comm/nccl_api.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "comm/world.h"

namespace amdahl {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";
constexpr const char* kRemedy = "install NCCL 2.28.9 or later and put the folder of libnccl.so.2 on LD_LIBRARY_PATH";

template <class Fn>
bool load(void* library, const char* name, Fn& fn, std::string& missing) {
  fn = reinterpret_cast<Fn>(dlsym(library, name));
  if (!fn) missing = name;
  return fn != nullptr;
}

template <class Fn>
void load_if_there(void* library, const char* name, Fn& fn) {
  fn = reinterpret_cast<Fn>(dlsym(library, name));
}

void load_newer(void* library, NcclApi& api) {
  load_if_there(library, "ncclAlltoAll", api.all_to_all);
  load_if_there(library, "ncclGather", api.gather);
  load_if_there(library, "ncclScatter", api.scatter);
  load_if_there(library, "ncclMemAlloc", api.mem_alloc);
  load_if_there(library, "ncclMemFree", api.mem_free);
  load_if_there(library, "ncclCommRegister", api.comm_register);
  load_if_there(library, "ncclCommDeregister", api.comm_deregister);
  load_if_there(library, "ncclCommWindowRegister", api.window_register);
  load_if_there(library, "ncclCommWindowDeregister", api.window_deregister);
}

bool load_all(void* library, NcclApi& api, std::string& missing) {
  return load(library, "ncclGetVersion", api.get_version, missing) &&
         load(library, "ncclGetUniqueId", api.get_unique_id, missing) &&
         load(library, "ncclCommInitRankConfig", api.comm_init_rank_config, missing) &&
         load(library, "ncclCommDestroy", api.comm_destroy, missing) &&
         load(library, "ncclCommAbort", api.comm_abort, missing) &&
         load(library, "ncclCommGetAsyncError", api.comm_get_async_error, missing) &&
         load(library, "ncclGetErrorString", api.get_error_string, missing) &&
         load(library, "ncclGetLastError", api.get_last_error, missing) &&
         load(library, "ncclAllReduce", api.all_reduce, missing) && load(library, "ncclReduce", api.reduce, missing) &&
         load(library, "ncclBroadcast", api.broadcast, missing) &&
         load(library, "ncclAllGather", api.all_gather, missing) &&
         load(library, "ncclReduceScatter", api.reduce_scatter, missing) &&
         load(library, "ncclSend", api.send, missing) && load(library, "ncclRecv", api.recv, missing) &&
         load(library, "ncclGroupStart", api.group_start, missing) &&
         load(library, "ncclGroupEnd", api.group_end, missing);
}

}  // namespace

std::shared_ptr<const NcclApi> NcclApi::open(Availability& why) {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    why = {false, fmt::format("{} does not load: {}", kLibrary, dlerror()), kRemedy};
    return nullptr;
  }
  auto api = std::make_shared<NcclApi>();
  std::string missing;
  if (!load_all(library, *api, missing)) {
    why = {false, fmt::format("{} has no {}: it is too old", kLibrary, missing), kRemedy};
    dlclose(library);
    return nullptr;
  }
  load_newer(library, *api);
  why = {true, {}, {}};
  return api;
}

int NcclApi::version() const {
  int version = 0;
  return get_version(&version) == ncclSuccess ? version : 0;
}

void NcclApi::check(ncclResult_t result, const char* call, ncclComm_t comm) const {
  if (result == ncclSuccess || result == ncclInProgress) return;
  const char* detail = get_last_error(comm);
  const bool remote = result == ncclRemoteError;
  throw Error(remote ? Cause::rank_died : Cause::device_error,
              fmt::format("{} failed: {}{}{}", call, get_error_string(result), detail && *detail ? ": " : "",
                          detail ? detail : ""),
              remote ? "look at the first error of the other ranks" : "NCCL_DEBUG=WARN shows where");
}

std::string format_nccl_version(int version) {
  if (version <= 0) return {};
  if (version < 10000) return fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Availability nccl_availability() {
  Availability availability;
  const auto api = NcclApi::open(availability);
  if (!api) return availability;
  const Availability cuda = cuda_availability();
  if (!cuda.ok) return {false, "NCCL is here, but " + cuda.reason, cuda.remedy};
  // Versions with bugs in the collectives that this program measures; usable, with a warning.
  if (const int version = api->version(); version >= 22803 && version <= 22808)
    availability.reason = fmt::format("NCCL {} has known faults, 2.28.9 fixes them", format_nccl_version(version));
  return availability;
}

std::string nccl_version() {
  Availability availability;
  const auto api = NcclApi::open(availability);
  return api ? format_nccl_version(api->version()) : std::string();
}

}  // namespace amdahl
