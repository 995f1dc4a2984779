// Runs CUDA kernels on the CPU, so that tests without a GPU execute their source.
//
// Every thread of the blocks of a cluster is a fiber of one OS thread. A fiber runs until it has to wait: at a barrier
// of its warp, block or cluster, or in an instruction of the whole warp. Which one runs next is drawn at random, so
// that runs with different seeds find missing barriers: their results differ. Kernels include the files of
// tests/emulator/include in place of CUDA's, and in place of ops/cuda_instructions.cuh.
//
//   emulator::run({.blocks = 6, .threads = 256, .cluster = 3, .shared_bytes = 4096, .seed = 1},
//                 [&](std::byte* shared) { some_kernel_body(arguments, shared); });
//
// What is strict here: shared memory is NaN at first and lies between pages without access, as GuardedMemory does; an
// asynchronous copy is done either when it starts or when it is waited for; threads that wait for each other in vain,
// and lanes of a warp in different instructions, are errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace amdahl::emulator {

inline constexpr int kWarpLanes = 32;

struct Launch {
  int blocks = 1, threads = 32;
  int cluster = 1;  // blocks per cluster; divides `blocks`
  size_t shared_bytes = 0;
  uint64_t seed = 0;  // of the order of fibers; 0: the fiber that became ready last runs first
};

/// Runs `kernel` as every thread of every block, with its block's shared memory. Throws std::runtime_error when the
/// kernel's threads wait in vain or use a primitive wrongly, and what the kernel throws. Not reentrant.
void run(const Launch& launch, const std::function<void(std::byte* shared)>& kernel);

/// Memory filled with 0xff bytes, NaN in every type, that ends at a page without access and begins after one.
class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  std::byte* data() const { return data_; }  // aligned to 128 bytes, at most 127 bytes before the page
  size_t bytes() const { return bytes_; }

 private:
  std::byte *mapping_, *data_;
  size_t mapped_, bytes_;
};

// ---- What the emulated builtins and instructions are made of. All are called by kernels. ----

/// What the lanes of a warp bring to an instruction, and where they want its result; all null in a barrier.
struct WarpOperands {
  const void* in[kWarpLanes];
  void* out[kWarpLanes];
};
/// Waits for the other lanes; the last one calls compute.
void warp_instruction(const char* name, const void* in, void* out, void (*compute)(const WarpOperands&));
void sync_warp();
void sync_block();
void arrive_at_cluster();
void wait_for_cluster();
int cluster_rank();
int cluster_size();
/// The address of `pointer`, of this block's shared memory, in that of another block of the cluster.
std::byte* in_block(const void* pointer, int rank);
/// Throws unless [pointer, pointer + bytes) is in this block's shared memory.
void check_shared(const void* pointer, size_t bytes);
/// A copy of `bytes` into shared memory, or of zeros when `from` is null.
void start_copy(void* to, const void* from, size_t bytes);
void commit_copies();
void wait_for_copies(size_t pending);

}  // namespace amdahl::emulator
