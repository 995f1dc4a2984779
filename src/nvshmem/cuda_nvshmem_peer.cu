// amdahl-nvshmem: the operations of `amdahl onesided` by NVSHMEM's own device functions, as a peer. A program of its
// own, because NVSHMEM's device library is linked into the kernels. `amdahl onesided --peers nvshmem` starts one
// process per rank and reads what rank 0 prints: a line "operation bytes threads wrong-bytes us us us ..." per
// operation and size.
//
//   amdahl-nvshmem RANK WORLD ID_FILE SAMPLES LEAST_US THREADS SIZE[,SIZE...]
//
// ID_FILE: rank 0 writes NVSHMEM's unique id there, which the others read. One GPU per rank. Latencies are defined as
// those of `onesided`: of put_signal and signal half a round trip, of the others the time of one repetition in a kernel
// of one block.
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr double kPatienceSeconds = 60;

[[noreturn]] void stop(const std::string& what) {
  std::fprintf(stderr, "amdahl-nvshmem: %s\n", what.c_str());
  std::_Exit(1);
}
void check_cuda(cudaError_t error, const char* call) {
  if (error != cudaSuccess) stop(std::string(call) + ": " + cudaGetErrorString(error));
}

enum class PeerOperation { put, get, put_signal, signal, barrier };
struct PeerRow {
  PeerOperation operation;
  const char* name;
  bool sized;
  int transfers;  // one after another in a repetition
  bool to_rank_zero, to_rank_one;
};
constexpr PeerRow kRows[] = {{PeerOperation::put, "put", true, 1, false, true},
                             {PeerOperation::get, "get", true, 1, true, false},
                             {PeerOperation::put_signal, "put_signal", true, 2, true, true},
                             {PeerOperation::signal, "signal", false, 2, false, false},
                             {PeerOperation::barrier, "barrier", false, 1, false, false}};

/// Symmetric objects of every rank.
struct Boxes {
  char *outbox, *inbox;
  uint64_t *signal, *wrong;
};

__global__ void repeat_transfers(PeerOperation operation, Boxes boxes, size_t bytes, int64_t times) {
  for (int64_t i = 0; i < times; ++i) {
    if (operation == PeerOperation::put) {
      nvshmemx_putmem_block(boxes.inbox, boxes.outbox, bytes, 1);
      nvshmem_quiet();
    } else {
      nvshmemx_getmem_block(boxes.inbox, boxes.outbox, bytes, 1);
    }
    __syncthreads();
  }
}

__global__ void repeat_ping_pong(Boxes boxes, size_t bytes, int64_t times, uint64_t first, int rank) {
  const int other = 1 - rank;
  const auto wait = [&](uint64_t value) {
    if (threadIdx.x == 0) nvshmem_signal_wait_until(boxes.signal, NVSHMEM_CMP_GE, value);
    __syncthreads();
  };
  for (int64_t i = 1; i <= times; ++i) {
    const uint64_t value = first + static_cast<uint64_t>(i);
    if (rank == 1) wait(value);
    if (bytes > 0)
      nvshmemx_putmem_signal_block(boxes.inbox, boxes.outbox, bytes, boxes.signal, value, NVSHMEM_SIGNAL_SET, other);
    else if (threadIdx.x == 0)
      nvshmemx_signal_op(boxes.signal, value, NVSHMEM_SIGNAL_SET, other);
    if (rank == 0) wait(value);
  }
}

__global__ void repeat_barriers(int64_t times) {
  for (int64_t i = 0; i < times; ++i) nvshmemx_barrier_all_block();
}

__device__ char byte_of(int rank, size_t i) { return static_cast<char>(i * 31 + i / 251 + rank * 7 + 1); }

__global__ void fill(Boxes boxes, size_t bytes, int rank) {
  for (size_t i = threadIdx.x; i < bytes; i += blockDim.x) boxes.outbox[i] = byte_of(rank, i), boxes.inbox[i] = 0;
}
/// Adds the number of bytes that are not those of rank `from` to the counter of rank 0.
__global__ void compare(Boxes boxes, size_t bytes, int from) {
  uint64_t wrong = 0;
  for (size_t i = threadIdx.x; i < bytes; i += blockDim.x) wrong += boxes.inbox[i] != byte_of(from, i);
  if (wrong > 0) nvshmem_uint64_atomic_add(boxes.wrong, wrong, 0);
}

class Peer {
 public:
  Peer(int rank, int threads, size_t most_bytes) : rank_(rank), threads_(threads) {
    boxes_.outbox = static_cast<char*>(allocate(most_bytes));
    boxes_.inbox = static_cast<char*>(allocate(most_bytes));
    boxes_.signal = static_cast<uint64_t*>(allocate(sizeof(uint64_t)));
    boxes_.wrong = static_cast<uint64_t*>(allocate(sizeof(uint64_t)));
    check_cuda(cudaEventCreate(&start_), "cudaEventCreate");
    check_cuda(cudaEventCreate(&end_), "cudaEventCreate");
  }

  uint64_t count_wrong(const PeerRow& row, size_t bytes) {
    check_cuda(cudaMemset(boxes_.wrong, 0, sizeof(uint64_t)), "cudaMemset");
    fill<<<1, 512>>>(boxes_, bytes, rank_);
    meet();
    enqueue(row, bytes, 1);
    meet();
    const bool receives = (rank_ == 0 && row.to_rank_zero) || (rank_ == 1 && row.to_rank_one);
    if (receives) compare<<<1, 512>>>(boxes_, bytes, 1 - rank_);
    meet();
    uint64_t wrong = 0;
    check_cuda(cudaMemcpy(&wrong, boxes_.wrong, sizeof wrong, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return wrong;
  }

  /// Microseconds of `times` repetitions on rank 0.
  double time_us(const PeerRow& row, size_t bytes, int64_t times) {
    meet();
    check_cuda(cudaEventRecord(start_), "cudaEventRecord");
    enqueue(row, bytes, times);
    check_cuda(cudaEventRecord(end_), "cudaEventRecord");
    meet();
    float ms = 0;
    check_cuda(cudaEventElapsedTime(&ms, start_, end_), "cudaEventElapsedTime");
    return ms * 1e3;
  }

 private:
  static void* allocate(size_t bytes) {
    void* memory = nvshmem_malloc(std::max<size_t>(bytes, 64));
    if (!memory) stop("nvshmem_malloc of " + std::to_string(bytes) + " bytes failed: raise NVSHMEM_SYMMETRIC_SIZE");
    check_cuda(cudaMemset(memory, 0, std::max<size_t>(bytes, 64)), "cudaMemset");
    return memory;
  }
  void meet() {
    check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    nvshmem_barrier_all();
  }
  void enqueue(const PeerRow& row, size_t bytes, int64_t times) {
    switch (row.operation) {
      case PeerOperation::put:
      case PeerOperation::get:
        if (rank_ == 0) repeat_transfers<<<1, threads_>>>(row.operation, boxes_, bytes, times);
        break;
      case PeerOperation::barrier:
        repeat_barriers<<<1, 32>>>(times);
        break;
      default:
        if (rank_ < 2)
          repeat_ping_pong<<<1, row.sized ? threads_ : 32>>>(boxes_, row.sized ? bytes : 0, times, sent_, rank_);
        sent_ += static_cast<uint64_t>(times);
    }
    check_cuda(cudaGetLastError(), row.name);
  }

  const int rank_, threads_;
  Boxes boxes_{};
  cudaEvent_t start_ = nullptr, end_ = nullptr;
  uint64_t sent_ = 0;
};

/// Rank 0's unique id, by a file that appears whole.
nvshmemx_uniqueid_t share_id(int rank, const std::string& file) {
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  if (rank == 0) {
    if (nvshmemx_get_uniqueid(&id) != 0) stop("nvshmemx_get_uniqueid failed");
    std::ofstream(file + ".part", std::ios::binary).write(reinterpret_cast<const char*>(&id), sizeof id);
    if (std::rename((file + ".part").c_str(), file.c_str()) != 0) stop("cannot write " + file);
    return id;
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(kPatienceSeconds);
  while (std::chrono::steady_clock::now() < until) {
    std::ifstream in(file, std::ios::binary);
    if (in.read(reinterpret_cast<char*>(&id), sizeof id)) return id;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  stop("rank 0 wrote no id into " + file);
}

/// Every rank repeats as often as rank 0 found necessary.
int64_t choose_times(Peer& peer, const PeerRow& row, size_t bytes, double least_us, uint64_t* shared) {
  int64_t times = 1;
  while (true) {
    const double us = peer.time_us(row, bytes, times);
    uint64_t enough = us >= least_us || times >= int64_t{1} << 20;
    // Rank 0's decision: its time covers the other ranks' part.
    check_cuda(cudaMemcpy(shared, &enough, sizeof enough, cudaMemcpyHostToDevice), "cudaMemcpy");
    nvshmem_barrier_all();
    nvshmem_uint64_get(&enough, shared, 1, 0);
    nvshmem_barrier_all();
    if (enough != 0) return times;
    times *= 2;
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 8) stop("usage: amdahl-nvshmem RANK WORLD ID_FILE SAMPLES LEAST_US THREADS SIZE[,SIZE...]");
  const int rank = std::atoi(words[1]), world = std::atoi(words[2]), samples = std::atoi(words[4]);
  const double least_us = std::atof(words[5]);
  const int threads = std::atoi(words[6]);
  std::vector<size_t> sizes;
  std::istringstream list(words[7]);
  for (std::string word; std::getline(list, word, ',');) sizes.push_back(std::strtoull(word.c_str(), nullptr, 10));
  if (rank < 0 || world < 2 || rank >= world || samples < 1 || sizes.empty()) stop("arguments out of range");
  int gpus = 0;
  check_cuda(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount");
  if (gpus < world)
    stop(std::to_string(gpus) + " GPUs for " + std::to_string(world) + " ranks: one per rank is needed");
  check_cuda(cudaSetDevice(rank), "cudaSetDevice");
  nvshmemx_uniqueid_t id = share_id(rank, words[3]);
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  nvshmemx_set_attr_uniqueid_args(rank, world, &id, &attributes);
  if (nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) != 0) stop("nvshmemx_init_attr failed");
  {
    Peer peer(rank, threads, *std::max_element(sizes.begin(), sizes.end()));
    auto* shared = static_cast<uint64_t*>(nvshmem_malloc(64));
    if (!shared) stop("nvshmem_malloc failed");
    for (const PeerRow& row : kRows)
      for (const size_t bytes : row.sized ? sizes : std::vector<size_t>{8}) {
        const uint64_t wrong = row.sized ? peer.count_wrong(row, bytes) : 0;
        const int64_t times = choose_times(peer, row, bytes, least_us, shared);
        for (int warm = 0; warm < 3; ++warm) peer.time_us(row, bytes, times);
        if (rank == 0) std::printf("%s %zu %d %llu", row.name, bytes, threads, static_cast<unsigned long long>(wrong));
        for (int i = 0; i < samples; ++i) {
          const double us = peer.time_us(row, bytes, times) / static_cast<double>(times) / row.transfers;
          if (rank == 0) std::printf(" %.6f", us);
        }
        if (rank == 0) std::printf("\n");
      }
    nvshmem_free(shared);
  }
  nvshmem_finalize();
  return 0;
}
