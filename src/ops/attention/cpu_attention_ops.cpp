// Attention on the CPU: per head and block of queries two GEMMs forward and five backward, by oneDNN. The scores of one
// block are in scratch memory; backward computes them again.
#include <algorithm>
#include <cmath>

#include "ops/cpu_ops.h"
#include "ops/gemm/cpu_gemm.h"

namespace amdahl {
namespace {

class CpuAttentionOps final : public AttentionOps {
 public:
  void attention_forward(Stream& stream, const AttentionForward& a) override {
    require_f32(a.shape.type, "attention");
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] { forward(worker, a); });
  }
  void attention_backward(Stream& stream, const AttentionBackward& a) override {
    require_f32(a.shape.type, "attention");
    CpuStream& worker = as_cpu(stream);
    worker.enqueue([this, &worker, a] { backward(worker, a); });
  }

 private:
  // Calls block(first query, queries, keys), the last block first.
  template <class Block>
  static void for_each_block(const AttentionShape& s, const Block& block) {
    const int64_t size = queries_of_a_block(s.steps, s.causal);
    for (int64_t first = (s.steps - 1) / size * size; first >= 0; first -= size) {
      const int64_t queries = std::min(size, s.steps - first);
      block(first, queries, s.causal ? first + queries : s.steps);
    }
  }

  void forward(CpuStream& worker, const AttentionForward& a) {
    const AttentionShape& s = a.shape;
    const int64_t d = s.head_width, width = s.heads * d, stride = 3 * width, padded = padded_width(s.steps);
    const int64_t size = queries_of_a_block(s.steps, s.causal);
    auto* scores = static_cast<float*>(worker.scratch(0, static_cast<size_t>(size * padded + size) * sizeof(float)));
    float* inverse_sums = scores + size * padded;
    const float scale = 1.0f / std::sqrt(static_cast<float>(d));
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h) {
        const float* q = static_cast<const float*>(a.qkv) + b * s.steps * stride + h * d;
        float* out = static_cast<float*>(a.out) + b * s.steps * width + h * d;
        float* log_sums = a.log_sums + (b * s.heads + h) * s.steps;
        for_each_block(s, [&](int64_t first, int64_t queries, int64_t keys) {
          const ScoreRows rows{scores, queries, keys, padded, first, s.causal, scale};
          multiply('N', 'T', queries, keys, d, {q + first * stride, stride}, {q + width, stride}, scores, padded,
                   false);
          kernels_.softmax_rows(rows, log_sums + first, inverse_sums);
          float* block_out = out + first * width;
          multiply('N', 'N', queries, d, keys, {scores, padded}, {q + 2 * width, stride}, block_out, width, false);
          kernels_.scale_rows(block_out, inverse_sums, queries, d, width);
        });
      }
  }

  // The last block sets the gradients of all keys that any query attends to; the others add to them.
  void backward(CpuStream& worker, const AttentionBackward& a) {
    const AttentionShape& s = a.shape;
    const int64_t d = s.head_width, width = s.heads * d, stride = 3 * width, padded = padded_width(s.steps);
    const int64_t size = queries_of_a_block(s.steps, s.causal);
    auto* p = static_cast<float*>(worker.scratch(0, static_cast<size_t>(2 * size * padded + size) * sizeof(float)));
    float *d_p = p + size * padded, *dots = d_p + size * padded;
    const float scale = 1.0f / std::sqrt(static_cast<float>(d));
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t in = b * s.steps * stride + h * d, out = b * s.steps * width + h * d;
        const float* q = static_cast<const float*>(a.qkv) + in;
        const float *k = q + width, *v = k + width;
        float* d_q = static_cast<float*>(a.d_qkv) + in;
        float *d_k = d_q + width, *d_v = d_k + width;
        const float* log_sums = a.log_sums + (b * s.heads + h) * s.steps;
        for_each_block(s, [&](int64_t first, int64_t queries, int64_t keys) {
          const bool add = first + queries < s.steps;
          const ScoreRows rows{p, queries, keys, padded, first, s.causal, scale};
          const float* block_out = static_cast<const float*>(a.out) + out + first * width;
          const float* d_out = static_cast<const float*>(a.d_out) + out + first * width;
          const CpuMatrix block_q{q + first * stride, stride}, block_d_out{d_out, width};
          kernels_.row_dots(block_out, d_out, dots, queries, d, width);
          multiply('N', 'T', queries, keys, d, block_q, {k, stride}, p, padded, false);
          multiply('N', 'T', queries, keys, d, block_d_out, {v, stride}, d_p, padded, false);
          kernels_.softmax_gradient(rows, d_p, log_sums + first, dots);
          multiply('T', 'N', keys, d, queries, {p, padded}, block_d_out, d_v, stride, add);
          multiply('T', 'N', keys, d, queries, {d_p, padded}, block_q, d_k, stride, add);
          multiply('N', 'N', queries, d, keys, {d_p, padded}, {k, stride}, d_q + first * stride, stride, false);
        });
      }
  }

  const CpuSequenceKernels& kernels_ = best_cpu_sequence_kernels();
};

}  // namespace

std::unique_ptr<AttentionOps> make_cpu_attention_ops() { return std::make_unique<CpuAttentionOps>(); }

}  // namespace amdahl
