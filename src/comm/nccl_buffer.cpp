#include "comm/nccl_buffer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace amdahl {
namespace {

/// Memory of ncclMemAlloc with its registration. Shared with the registering thread, which may outlive the wait.
struct NcclMemory {
  void* data = nullptr;
  size_t bytes = 0;
  void* handle = nullptr;
  ncclWindow_t window = nullptr;
};

class NcclBuffer final : public Buffer {
 public:
  NcclBuffer(std::shared_ptr<NcclRank> nccl, std::shared_ptr<NcclMemory> memory)
      : nccl_(std::move(nccl)), memory_(std::move(memory)) {}
  ~NcclBuffer() override {
    nccl_->tidy([nccl = nccl_, memory = memory_](ncclComm_t comm) {
      if (memory->handle) return nccl->api().comm_deregister(comm, memory->handle);
      if (memory->window) return nccl->api().window_deregister(comm, memory->window);
      return ncclSuccess;
    });
    // Kernels of an aborted communicator may still use the memory, which is then kept until the process ends.
    if (!nccl_->lost()) nccl_->api().mem_free(memory_->data);
  }
  void* data() override { return memory_->data; }
  size_t bytes() const override { return memory_->bytes; }

 private:
  std::shared_ptr<NcclRank> nccl_;
  std::shared_ptr<NcclMemory> memory_;
};

void require_functions(const NcclApi& api, Registration how) {
  const bool there = api.mem_alloc && api.mem_free &&
                     (how == Registration::window ? api.window_register && api.window_deregister
                                                  : api.comm_register && api.comm_deregister);
  if (!there)
    throw Error(Cause::environment_missing,
                fmt::format("NCCL {} registers no {}", format_nccl_version(api.version()),
                            how == Registration::window ? "symmetric windows" : "buffers"),
                "NCCL 2.19 for registered buffers, 2.27 for symmetric windows");
}

/// Throws on all ranks unless all have their memory, because a rank alone in a registration would wait for the others.
void agree_on_memory(ControlPlane& plane, int rank, const std::string& error, Deadline deadline) {
  const std::vector<std::string> all = plane.exchange(rank, error, deadline);
  for (size_t from = 0; from < all.size(); ++from)
    if (!all[from].empty())
      throw Error(Cause::out_of_memory, fmt::format("{} on rank {}", all[from], from), "a smaller `max_bytes`");
}

ncclResult_t register_memory(const NcclApi& api, ncclComm_t comm, NcclMemory& memory, Registration how) {
  return how == Registration::window
             ? api.window_register(comm, memory.data, memory.bytes, &memory.window, NCCL_WIN_COLL_SYMMETRIC)
             : api.comm_register(comm, memory.data, memory.bytes, &memory.handle);
}

}  // namespace

std::unique_ptr<Buffer> make_nccl_buffer(const std::shared_ptr<NcclRank>& nccl, ControlPlane& plane, int rank,
                                         const RegisteredMemory& wanted) {
  require_functions(nccl->api(), wanted.how);
  auto memory = std::make_shared<NcclMemory>();
  // A rank with an empty buffer registers memory too, because the call is collective.
  memory->bytes = (std::max<size_t>(wanted.bytes, 1) + NCCL_WIN_REQUIRED_ALIGNMENT - 1) / NCCL_WIN_REQUIRED_ALIGNMENT *
                  NCCL_WIN_REQUIRED_ALIGNMENT;
  const ncclResult_t allocated = nccl->api().mem_alloc(&memory->data, memory->bytes);
  const auto error = allocated == ncclSuccess ? std::string()
                                              : fmt::format("ncclMemAlloc of {} bytes failed ({})", memory->bytes,
                                                            nccl->api().get_error_string(allocated));
  std::unique_ptr<NcclBuffer> buffer;
  if (memory->data) buffer = std::make_unique<NcclBuffer>(nccl, memory);
  agree_on_memory(plane, rank, error, wanted.deadline);
  const bool window = wanted.how == Registration::window;
  nccl->call_with_peers(
      window ? "ncclCommWindowRegister" : "ncclCommRegister",
      [nccl, memory, how = wanted.how](ncclComm_t comm) { return register_memory(nccl->api(), comm, *memory, how); },
      wanted.deadline);
  // NCCL returns success without a handle when it cannot or may not register, and plain memory would be measured.
  if (!memory->handle && !memory->window)
    throw Error(Cause::environment_missing,
                window ? "NCCL made no symmetric window of the buffers" : "NCCL did not register the buffers",
                window ? "it needs peer access between all GPUs, NCCL_CUMEM_ENABLE=1 and NCCL_WIN_ENABLE=1"
                       : "unset NCCL_LOCAL_REGISTER");
  return buffer;
}

}  // namespace amdahl
