// Matrix products by oneDNN: the call, its warm-up, and copies that avoid rows which map to the same cache sets.
#include "ops/gemm/cpu_gemm.h"

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.h>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

// Uses oneDNN's plain sgemm: a matmul primitive runs the same kernels but costs 1.5 us more per call, as much as a
// small layer.
void multiply(char op_a, char op_b, int64_t m, int64_t n, int64_t k, CpuMatrix a, CpuMatrix b, float* c,
              int64_t stride_c, bool accumulate) {
  if (m == 0 || n == 0) return;
  const dnnl_status_t status =
      dnnl_sgemm(op_a, op_b, m, n, k, 1.0f, a.data, a.stride, b.data, b.stride, accumulate ? 1.0f : 0.0f, c, stride_c);
  if (status == dnnl_out_of_memory)
    throw Error(Cause::out_of_memory, fmt::format("oneDNN has no memory for a {} x {} x {} GEMM", m, n, k),
                "a smaller batch or model, or a higher limit of memory (ulimit -v)");
  if (status != dnnl_success)
    throw Error(Cause::internal,
                fmt::format("oneDNN refused a {} x {} x {} GEMM (status {})", m, n, k, static_cast<int>(status)));
}

// oneDNN generates its kernels in the first calls and crashes if it gets no memory for them. They are generated here,
// after a check that enough memory is available and before anything else allocates.
void make_gemm_kernels() {
  constexpr size_t kBytes = size_t{64} << 20;  // three times the memory of the kernels (oneDNN 2.7, AVX2 and AVX-512)
  void* room = std::malloc(kBytes);            // reserves addresses only; nothing is written
  std::free(room);
  if (!room)
    throw Error(Cause::out_of_memory, fmt::format("oneDNN's kernels need {}", format_bytes(double(kBytes))),
                "a higher limit of memory (ulimit -v)");
  constexpr int64_t kSizes[] = {1, 64};  // 1: vectors have kernels of their own
  const std::vector<float> a(64 * 64), b(64 * 64);
  std::vector<float> c(64 * 64);
  for (const char op_a : {'N', 'T'})
    for (const char op_b : {'N', 'T'})
      for (const int64_t m : kSizes)
        for (const int64_t n : kSizes)
          for (const bool accumulate : {false, true})
            multiply(op_a, op_b, m, n, 64, {a.data(), 64}, {b.data(), 64}, c.data(), n, accumulate);
}

// Rows that are a large power of two apart map to the same few cache sets, and oneDNN's kernels then run at 35 to 65 %
// of their speed. A copy with padded rows costs far less: always for activations; for weights within a range of batch
// sizes (below it the copy costs what it saves, above it oneDNN copies by itself).
CpuMatrix unaliased(CpuStream& stream, size_t slot, CpuMatrix from, int64_t rows, int64_t columns, int64_t aliasing) {
  if (from.stride % aliasing != 0) return from;
  const int64_t stride = columns + kPadFloats;
  auto* copy = static_cast<float*>(stream.scratch(slot, static_cast<size_t>(rows * stride) * sizeof(float)));
  for (int64_t r = 0; r < rows; ++r)
    std::memcpy(copy + r * stride, from.data + r * from.stride, static_cast<size_t>(columns) * sizeof(float));
  return {copy, stride};
}

}  // namespace amdahl
