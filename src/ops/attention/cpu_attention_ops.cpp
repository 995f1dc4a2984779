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
  void heads_forward(Stream& stream, const HeadsForward& a) override {
    require_f32(a.shape.type, "queries and keys");
    as_cpu(stream).enqueue([this, a] { kernels_.heads_forward(a); });
  }
  void heads_backward(Stream& stream, const HeadsBackward& a) override {
    require_f32(a.shape.type, "queries and keys");
    as_cpu(stream).enqueue([this, a] { kernels_.heads_backward(a); });
  }

 private:
  struct Block {
    int64_t first, queries;   // steps
    int64_t first_key, keys;  // that some of them attend to
    const int32_t* starts;    // AttentionShape::starts of the queries
  };
  // Calls body(Block) for row b of the batch, the last block first.
  template <class Body>
  static void for_each_block(const AttentionShape& s, int64_t b, const Body& body) {
    const int32_t* const starts = s.starts ? s.starts + b * s.steps : nullptr;
    const int64_t size = queries_of_a_block(s.steps, s.causal);
    for (int64_t first = (s.steps - 1) / size * size; first >= 0; first -= size) {
      const int64_t queries = std::min(size, s.steps - first);
      const int64_t in_window = s.window > 0 ? std::max<int64_t>(0, first + 1 - s.window) : 0;
      const int64_t first_key = std::max<int64_t>(in_window, starts ? starts[first] : 0);
      body(Block{first, queries, first_key, (s.causal ? first + queries : s.steps) - first_key,
                 starts ? starts + first : nullptr});
    }
  }
  static ScoreRows score_rows(const AttentionShape& s, const Block& block, float* scores, int64_t stride) {
    const float scale = 1.0f / std::sqrt(static_cast<float>(s.head_width));
    return {.scores = scores,
            .rows = block.queries,
            .keys = block.keys,
            .stride = stride,
            .first = block.first - block.first_key,
            .causal = s.causal,
            .scale = scale,
            .window = s.window,
            .starts = block.starts,
            .first_key = block.first_key};
  }

  void forward(CpuStream& worker, const AttentionForward& a) {
    const AttentionShape& s = a.shape;
    const int64_t d = s.head_width, width = s.query_width(), stride = s.packed_width();
    const int64_t size = queries_of_a_block(s.steps, s.causal), padded = padded_width(keys_of_a_block(s));
    auto* scores = static_cast<float*>(worker.scratch(0, static_cast<size_t>(size * padded + size) * sizeof(float)));
    float* inverse_sums = scores + size * padded;
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h) {
        const float* row = static_cast<const float*>(a.qkv) + b * s.steps * stride;
        const float *q = row + h * d, *k = row + width + h / s.group() * d, *v = k + s.key_width();
        float* out = static_cast<float*>(a.out) + b * s.steps * width + h * d;
        float* log_sums = a.log_sums + (b * s.heads + h) * s.steps;
        for_each_block(s, b, [&](const Block& block) {
          const auto [first, queries, first_key, keys, starts] = block;
          multiply('N', 'T', queries, keys, d, {q + first * stride, stride}, {k + first_key * stride, stride}, scores,
                   padded, false);
          kernels_.softmax_rows(score_rows(s, block, scores, padded), log_sums + first, inverse_sums);
          float* block_out = out + first * width;
          multiply('N', 'N', queries, d, keys, {scores, padded}, {v + first_key * stride, stride}, block_out, width,
                   false);
          kernels_.scale_rows(block_out, inverse_sums, queries, d, width);
        });
      }
  }

  // The last block of a group's first head sets the gradients of all keys that any query attends to; the others add to
  // them. With a window or several documents no block has all keys: their gradients are zeroed first.
  void backward(CpuStream& worker, const AttentionBackward& a) {
    const AttentionShape& s = a.shape;
    const int64_t d = s.head_width, width = s.query_width(), stride = s.packed_width();
    const int64_t size = queries_of_a_block(s.steps, s.causal), padded = padded_width(keys_of_a_block(s));
    auto* p = static_cast<float*>(worker.scratch(0, static_cast<size_t>(2 * size * padded + size) * sizeof(float)));
    const bool leaves_out_keys = s.window > 0 || s.starts;
    float *d_p = p + size * padded, *dots = d_p + size * padded;
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t in = b * s.steps * stride, out = b * s.steps * width + h * d;
        const int64_t key_at = in + width + h / s.group() * d;
        const float *q = static_cast<const float*>(a.qkv) + in + h * d, *k = static_cast<const float*>(a.qkv) + key_at;
        const float* v = k + s.key_width();
        float *d_q = static_cast<float*>(a.d_qkv) + in + h * d, *d_k = static_cast<float*>(a.d_qkv) + key_at;
        float* d_v = d_k + s.key_width();
        const bool begins = h % s.group() == 0;
        if (begins && leaves_out_keys)
          for (int64_t t = 0; t < s.steps; ++t)
            for (float* key : {d_k, d_v}) std::fill_n(key + t * stride, d, 0.0f);
        const float* log_sums = a.log_sums + (b * s.heads + h) * s.steps;
        for_each_block(s, b, [&](const Block& block) {
          const auto [first, queries, first_key, keys, starts] = block;
          const bool add = first + queries < s.steps || !begins || leaves_out_keys;
          const float* block_out = static_cast<const float*>(a.out) + out + first * width;
          const float* d_out = static_cast<const float*>(a.d_out) + out + first * width;
          const CpuMatrix block_q{q + first * stride, stride}, block_d_out{d_out, width};
          const CpuMatrix block_k{k + first_key * stride, stride}, block_v{v + first_key * stride, stride};
          kernels_.row_dots(block_out, d_out, dots, queries, d, width);
          multiply('N', 'T', queries, keys, d, block_q, block_k, p, padded, false);
          multiply('N', 'T', queries, keys, d, block_d_out, block_v, d_p, padded, false);
          kernels_.softmax_gradient(score_rows(s, block, p, padded), d_p, log_sums + first, dots);
          multiply('T', 'N', keys, d, queries, {p, padded}, block_d_out, d_v + first_key * stride, stride, add);
          multiply('T', 'N', keys, d, queries, {d_p, padded}, block_q, d_k + first_key * stride, stride, add);
          multiply('N', 'N', queries, d, keys, {d_p, padded}, block_k, d_q + first * stride, stride, false);
        });
      }
  }

  const CpuSequenceKernels& kernels_ = best_cpu_sequence_kernels();
};

}  // namespace

std::unique_ptr<AttentionOps> make_cpu_attention_ops() { return std::make_unique<CpuAttentionOps>(); }

}  // namespace amdahl
