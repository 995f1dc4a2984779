#include "ops/gemm/cuda_matmul_probe.h"

#include "base/small_floats.h"
#include "ops/cuda_probe.h"

namespace amdahl {
namespace {

// Multiples of 8, as cuBLASLt requires of the input of gelu, but of no tile.
constexpr int64_t kRows = 48, kColumns = 72, kDepth = 200;

/// The inputs of a small problem, and a set of outputs per method.
class EpilogueProbe {
 public:
  EpilogueProbe(CudaTuner& tuner, int device_index, const MatMul& kind)
      : tuner_(tuner),
        device_index_(device_index),
        kind_(kind),
        a_(input(kRows * kDepth, 11)),
        b_(input(kColumns * kDepth, 12)),
        bias_(input(kColumns, 13)),
        aux_(input(kRows * kColumns, 14)) {}

  bool agrees(const EpilogueRun& run) {
    std::vector<float> results[2];
    for (const bool fused : {false, true}) {
      const ProbeArray c(room(kRows * kColumns, kind_.c_type)), aux(room(kRows * kColumns, kind_.type)),
          dbias(room(std::max(kRows, kColumns), DType::f32));
      MatMul call = kind_;
      call.a = a_.data(), call.b = b_.data(), call.c = c.data();
      call.m = kRows, call.n = kColumns, call.k = kDepth;
      call.stride_a = call.stride_b = call.stride_c = 0;
      call.accumulate = call.accumulate_dbias = false;
      const bool writes_aux = kind_.epilogue == MatMulEpilogue::bias_gelu;
      if (kind_.bias) call.bias = bias_.data();
      if (kind_.aux) call.aux = writes_aux ? aux.data() : aux_.data();
      if (kind_.dbias) call.dbias = dbias.data();
      if (!run(call, fused)) return false;
      std::vector<float>& result = results[fused ? 1 : 0];
      append(result, c, kRows * kColumns, kind_.c_type);
      if (writes_aux) append(result, aux, kRows * kColumns, kind_.type);
      const bool sums_rows = kind_.epilogue == MatMulEpilogue::sum_rows_of_a;
      sums_[fused ? 1 : 0].clear();
      if (kind_.dbias) append(sums_[fused ? 1 : 0], dbias, sums_rows ? kRows : kColumns, DType::f32);
    }
    return probe_agrees(results[1], results[0]) && probe_agrees(sums_[1], sums_[0]);
  }

 private:
  ProbeArray room(int64_t count, DType type) {
    return ProbeArray(tuner_, device_index_, static_cast<size_t>(count) * size_of(type));
  }
  ProbeArray input(int64_t count, uint32_t stream) {
    const std::vector<float> values = probe_floats(count, stream);
    if (kind_.type == DType::f32) return ProbeArray(tuner_, device_index_, values);
    std::vector<uint16_t> bits;
    for (float value : values) bits.push_back(kind_.type == DType::bf16 ? to_bfloat(value).bits : to_half(value).bits);
    return ProbeArray(tuner_, device_index_, bits);
  }
  static void append(std::vector<float>& to, const ProbeArray& from, int64_t count, DType type) {
    const auto n = static_cast<size_t>(count);
    if (type == DType::f32) {
      const std::vector<float> values = from.read<float>();
      to.insert(to.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n));
      return;
    }
    const std::vector<uint16_t> bits = from.read<uint16_t>();
    for (size_t i = 0; i < n; ++i)
      to.push_back(type == DType::bf16 ? to_float(Bfloat{bits[i]}) : to_float(Half{bits[i]}));
  }

  CudaTuner& tuner_;
  int device_index_;
  const MatMul& kind_;
  ProbeArray a_, b_, bias_, aux_;
  std::vector<float> sums_[2];
};

}  // namespace

bool probe_epilogue(CudaTuner& tuner, int device_index, const MatMul& kind, const EpilogueRun& run) {
  return probe_passes([&] { return EpilogueProbe(tuner, device_index, kind).agrees(run); });
}

}  // namespace amdahl
