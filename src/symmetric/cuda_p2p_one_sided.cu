// The backend "cuda_p2p": GPUs, or partitions of one GPU, of one process. Copies transfer data, kernels store signals.
#include "device/cuda_check.h"
#include "symmetric/cuda_symmetric.cuh"
#include "symmetric/cuda_team.h"
#include "symmetric/one_sided.h"

namespace amdahl {
namespace {

using namespace symmetric_cuda;

__device__ Signal* signal_at(const TeamView& team, size_t offset, int rank) {
  return reinterpret_cast<Signal*>(team.base[rank] + offset);
}
__global__ void store_signal(const __grid_constant__ TeamView team, size_t offset, uint64_t value, int rank) {
  quiet();  // also orders earlier copies of this stream by copy engines
  store_release(signal_at(team, offset, rank), value);
}
__global__ void await_signal(const __grid_constant__ TeamView team, size_t offset, uint64_t value, int from) {
  if (!is_broken(team) && !wait_until(team, signal_at(team, offset, team.rank), value, from)) set_broken(team);
}
__global__ void add(const __grid_constant__ TeamView team, size_t offset, uint64_t value, int rank, uint64_t* old) {
  auto* to = reinterpret_cast<uint64_t*>(team.base[team.rank] + offset);
  const uint64_t before = fetch_add(team, to, value, rank);
  if (old) *old = before;
}
__global__ void order_writes() { quiet(); }
__global__ void run_barrier(const __grid_constant__ TeamView team) { barrier(team); }

/// Loads the kernels in advance, because loading can block while a kernel of another rank on the same GPU waits for
/// this rank.
void load_kernels(int device_index) {
  cudaFuncAttributes attributes{};
  for (const void* kernel : {reinterpret_cast<const void*>(store_signal), reinterpret_cast<const void*>(await_signal),
                             reinterpret_cast<const void*>(add), reinterpret_cast<const void*>(order_writes),
                             reinterpret_cast<const void*>(run_barrier)})
    cuda_check(cudaFuncGetAttributes(&attributes, kernel), device_index, "cudaFuncGetAttributes");
}

class CudaP2pOneSided final : public OneSided {
 public:
  CudaP2pOneSided(Device& device, const SymmetricMemory& memory)
      : memory_(memory), team_(CudaTeam::join(device, memory, "a barrier or signal")) {
    load_kernels(index());
    for (const char* base : memory_.base) atomics_.push_back(has_native_atomics(index(), base));
  }
  std::string_view name() const override { return "cuda_p2p"; }

  void put(Stream& stream, size_t offset, const void* local, size_t bytes, int rank) override {
    copy(stream, at(offset, rank), local, bytes);
  }
  void get(Stream& stream, void* local, size_t offset, size_t bytes, int rank) override {
    copy(stream, local, at(offset, rank), bytes);
  }
  void signal(Stream& stream, size_t offset, uint64_t value, int rank) override {
    store_signal<<<1, 1, 0, team_->use(stream)>>>(team_->view(), offset, value, rank);
    check("store_signal");
  }
  void signal_wait(Stream& stream, size_t offset, uint64_t value, int from) override {
    await_signal<<<1, 1, 0, team_->use(stream)>>>(team_->view(), offset, value, from);
    check("await_signal");
  }
  void fetch_add(Stream& stream, size_t offset, uint64_t value, int rank, uint64_t* old) override {
    if (!atomics_[static_cast<size_t>(rank)])
      throw Error(Cause::environment_missing,
                  "fetch_add: no atomics between GPU " + std::to_string(index()) + " and that of rank " +
                      std::to_string(memory_.team.job_rank(rank)),
                  "GPUs that NVLink connects");
    add<<<1, 1, 0, team_->use(stream)>>>(team_->view(), offset, value, rank, old);
    check("fetch_add");
  }
  void fence(Stream& stream) override { quiet(stream); }
  void quiet(Stream& stream) override {
    order_writes<<<1, 1, 0, team_->use(stream)>>>();
    check("order_writes");
  }
  void barrier(Stream& stream) override {
    run_barrier<<<1, 32, 0, team_->use(stream)>>>(team_->view());
    check("run_barrier");
  }
  void abort() noexcept override { team_->end_waits(); }

 private:
  char* at(size_t offset, int rank) const { return memory_.base[static_cast<size_t>(rank)] + offset; }
  void copy(Stream& stream, void* to, const void* from, size_t bytes) {
    if (bytes == 0) return;
    cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, team_->use(stream)), index(), "cudaMemcpyAsync");
  }
  int index() const { return team_->device().spec().index; }
  void check(const char* kernel) const { cuda_check(cudaGetLastError(), index(), kernel); }

  SymmetricMemory memory_;
  std::shared_ptr<CudaTeam> team_;
  std::vector<bool> atomics_;  // by rank
};

}  // namespace

std::unique_ptr<OneSided> make_cuda_p2p_one_sided(Device& device, const SymmetricMemory& memory) {
  return std::make_unique<CudaP2pOneSided>(device, memory);
}

}  // namespace amdahl
