// Sums an array over the GPUs of one process with NCCL and checks every element of every result.
//   two_gpu_all_reduce [NUM_GPUS]      default 2; exit code 0: all right, 1: it failed, 2: no such number of GPUs
// Without CMake: nvcc -std=c++17 two_gpu_all_reduce.cpp -o two_gpu_all_reduce -lnccl
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

void check(bool ok, const char* text, int line) {
  if (!ok) std::fprintf(stderr, "line %d: %s\n", line, text), std::exit(1);
}
void check(cudaError_t s, int line = __builtin_LINE()) { check(s == cudaSuccess, cudaGetErrorString(s), line); }
void check(ncclResult_t s, int line = __builtin_LINE()) { check(s == ncclSuccess, ncclGetErrorString(s), line); }

constexpr size_t kCount = 1 << 20;
// Small integers, different on each rank: their sum is exact, and zeros or a missing rank give a wrong sum.
float sent(int rank, size_t i) { return static_cast<float>(i % 1000) + static_cast<float>(rank + 1); }

int main(int argc, char** argv) {
  const int num_gpus = argc > 1 ? std::atoi(argv[1]) : 2;
  int num_present = 0;
  check(cudaGetDeviceCount(&num_present));
  if (num_gpus < 2 || num_gpus > num_present) {
    std::fprintf(stderr, "%d GPUs asked for; 2 to the %d that are here\n", num_gpus, num_present);
    return 2;
  }
  // A communicator, a stream and a buffer for each GPU. Memory and streams belong to the current GPU.
  std::vector<ncclComm_t> comms(num_gpus);
  std::vector<cudaStream_t> streams(num_gpus);
  std::vector<float*> data(num_gpus);
  std::vector<float> host(kCount), expected(kCount);
  check(ncclCommInitAll(comms.data(), num_gpus, nullptr));  // null: rank r is GPU r
  for (int rank = 0; rank < num_gpus; ++rank) {
    for (size_t i = 0; i < kCount; ++i) host[i] = sent(rank, i);
    for (size_t i = 0; i < kCount; ++i) expected[i] += host[i];
    check(cudaSetDevice(rank));
    check(cudaStreamCreate(&streams[rank]));
    check(cudaMalloc(&data[rank], kCount * sizeof(float)));
    check(cudaMemcpy(data[rank], host.data(), kCount * sizeof(float), cudaMemcpyHostToDevice));
  }
  // One thread issues the calls of all ranks: the group prevents the first call from blocking on the second.
  check(ncclGroupStart());
  for (int rank = 0; rank < num_gpus; ++rank)
    check(ncclAllReduce(data[rank], data[rank], kCount, ncclFloat, ncclSum, comms[rank], streams[rank]));
  check(ncclGroupEnd());  // enqueued, not complete
  size_t num_wrong = 0;
  for (int rank = 0; rank < num_gpus; ++rank) {
    check(cudaSetDevice(rank));
    check(cudaStreamSynchronize(streams[rank]));
    check(cudaMemcpy(host.data(), data[rank], kCount * sizeof(float), cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < kCount; ++i) num_wrong += host[i] != expected[i];
    check(cudaFree(data[rank]));
    check(cudaStreamDestroy(streams[rank]));
  }
  for (const ncclComm_t comm : comms) check(ncclCommDestroy(comm));
  std::printf("%d GPUs, %zu elements on each, %zu wrong\n", num_gpus, kCount, num_wrong);
  return num_wrong == 0 ? 0 : 1;
}
