// Embeddings, positions, pooling and the losses of sequence models on the CPU.
#include <cstring>

#include "device/cpu_stream.h"
#include "ops/cpu_ops.h"

namespace amdahl {
namespace {

size_t row_bytes(int64_t width) { return static_cast<size_t>(width) * sizeof(float); }

class CpuSequenceOps final : public SequenceOps {
 public:
  void document_starts(Stream& stream, const DocumentStarts& a) override {
    as_cpu(stream).enqueue([a] {
      for (int64_t r = 0; r < a.rows; ++r)
        for (int64_t t = 0, start = 0; t < a.steps; ++t) {
          if (static_cast<int64_t>(a.tokens[r * a.steps + t]) == a.end) start = t;
          a.starts[r * a.steps + t] = static_cast<int32_t>(start);
        }
    });
  }
  void embedding_forward(Stream& stream, const EmbeddingForward& a) override {
    as_cpu(stream).enqueue([this, a] { kernels_.embedding_forward(a); });
  }
  void embedding_backward(Stream& stream, const EmbeddingBackward& a) override {
    as_cpu(stream).enqueue([this, a] { kernels_.embedding_backward(a); });
  }

  void add_positions(Stream& stream, const AddPositions& a) override {
    require_f32(a.type, "positions");
    as_cpu(stream).enqueue([this, a] {
      const auto* x = static_cast<const float*>(a.x);
      const int64_t per_row = a.steps * a.width;
      if (a.positions) {
        for (int64_t r = 0; r < a.rows; ++r) kernels_.add(x + r * per_row, a.positions, a.y + r * per_row, per_row);
      } else if (a.y != x) {
        std::memcpy(a.y, x, row_bytes(a.rows * per_row));
      }
    });
  }
  void positions_gradient(Stream& stream, const PositionsGradient& a) override {
    as_cpu(stream).enqueue([this, a] {
      dense_.column_sums(a.d_y, a.d_positions, a.rows, a.steps * a.width, a.steps * a.width, a.accumulate);
    });
  }

  void pool_steps(Stream& stream, const PoolSteps& a) override {
    as_cpu(stream).enqueue([this, a] {
      if (a.pooling == Pooling::mean) return kernels_.pool_mean(a);
      const int64_t step = a.pooling == Pooling::first ? 0 : a.steps - 1;
      for (int64_t r = 0; r < a.rows; ++r)
        std::memcpy(a.y + r * a.width, a.x + (r * a.steps + step) * a.width, row_bytes(a.width));
    });
  }
  void pool_steps_gradient(Stream& stream, const PoolStepsGradient& a) override {
    as_cpu(stream).enqueue([this, a] {
      if (a.pooling == Pooling::mean) return kernels_.pool_mean_gradient(a);
      const int64_t step = a.pooling == Pooling::first ? 0 : a.steps - 1;
      std::memset(a.d_x, 0, row_bytes(a.rows * a.steps * a.width));
      for (int64_t r = 0; r < a.rows; ++r)
        std::memcpy(a.d_x + (r * a.steps + step) * a.width, a.d_y + r * a.width, row_bytes(a.width));
    });
  }

  void token_loss(Stream& stream, const TokenLoss& a) override {
    require_f32(a.type, "the loss of tokens");
    as_cpu(stream).enqueue([this, a] { kernels_.token_loss(a); });
  }
  void token_loss_parts(Stream& stream, const TokenLossShard& a) override {
    require_f32(a.type, "the loss of tokens");
    as_cpu(stream).enqueue([this, a] { kernels_.token_loss_parts(a); });
  }
  void token_loss_of_parts(Stream& stream, const TokenLossShard& a) override {
    require_f32(a.type, "the loss of tokens");
    as_cpu(stream).enqueue([this, a] { kernels_.token_loss_of_parts(a); });
  }
  void absolute_error(Stream& stream, const AbsoluteError& a) override {
    as_cpu(stream).enqueue([this, a] { kernels_.absolute_error(a); });
  }

 private:
  const CpuKernels& dense_ = best_cpu_kernels();
  const CpuSequenceKernels& kernels_ = best_cpu_sequence_kernels();
};

}  // namespace

std::unique_ptr<SequenceOps> make_cpu_sequence_ops() { return std::make_unique<CpuSequenceOps>(); }

}  // namespace amdahl
