// Recording operations of the families that layers of sequences are made of.
#include "ops/recording_notes.h"

namespace amdahl {
namespace {

class RecordingMatMulOps final : public MatMulOps {
 public:
  explicit RecordingMatMulOps(const Notes& notes) : notes_(notes) {}
  void matmul(Stream&, const MatMul& a) override {
    notes_.add({"matmul",
                {{a.m, a.n, a.k}},
                of_type(a.type, a.m * a.k + a.k * a.n) + of_type(a.c_type, a.m * a.n * (a.accumulate ? 2 : 1)) +
                    if_any(a.aux, of_type(a.type, a.m * a.n)),
                scratch_of(a)});
  }
  void convert(Stream&, const float*, void*, DType type, int64_t count) override {
    notes_.add({"convert", {}, floats(count) + of_type(type, count)});
  }
  void column_sums(Stream&, const void*, DType type, float*, int64_t rows, int64_t width, bool) override {
    notes_.add({"column_sums", {}, of_type(type, rows * width) + floats(width)});
  }
  void activate(Stream&, const Activate& a) override {
    notes_.add({"activate", {}, of_type(a.type, (a.gated ? 3 : 2) * a.rows * a.width)});
  }
  void activate_gradient(Stream&, const ActivateGradient& a) override {
    notes_.add({"activate_gradient", {}, of_type(a.type, (a.gated ? 5 : 3) * a.rows * a.width)});
  }

 private:
  Notes notes_;
};

class RecordingNormOps final : public NormOps {
 public:
  explicit RecordingNormOps(const Notes& notes) : notes_(notes) {}
  void layer_norm_forward(Stream&, const LayerNormForward& a) override {
    const int64_t n = a.rows * a.width;
    notes_.add({"layer_norm_forward",
                {},
                floats(n) + if_any(a.delta, of_type(a.type, n)) + if_any(a.sum, floats(n)) +
                    if_any(a.y, of_type(a.y_type, n))});
  }
  void layer_norm_backward(Stream&, const LayerNormBackward& a) override {
    const int64_t n = a.rows * a.width;
    notes_.add({"layer_norm_backward",
                {},
                of_type(a.dy_type, n) + floats(n) + if_any(a.d_residual, floats(n)) + if_any(a.dx, floats(n)) +
                    if_any(a.dx_typed, of_type(a.type, n))});
  }
  void residual_add(Stream&, const ResidualAdd& a) override {
    notes_.add({"residual_add", {}, floats(2 * a.count) + of_type(a.type, a.count)});
  }

 private:
  Notes notes_;
};

class RecordingAttentionOps final : public AttentionOps {
 public:
  explicit RecordingAttentionOps(const Notes& notes) : notes_(notes) {}
  void attention_forward(Stream&, const AttentionForward& a) override {
    const AttentionShape& s = a.shape;
    const int64_t count = s.batch * s.heads;
    notes_.add({"attention_forward",
                {{s.steps, s.steps, s.head_width, count}, {s.steps, s.head_width, s.steps, count}},
                of_type(s.type, rows(s) * (s.packed_width() + s.query_width())),
                scratch_of(a)});
  }
  /// cuDNN's gradient of attention takes sums of q's gradient and of a query in f32; there is none in f32.
  void attention_backward(Stream&, const AttentionBackward& a) override {
    const AttentionShape& s = a.shape;
    const int64_t count = s.batch * s.heads;
    const RecordedProduct scores{s.steps, s.steps, s.head_width, count}, sums{s.steps, s.head_width, s.steps, count};
    notes_.add({"attention_backward",
                {scores, sums, sums, sums},
                of_type(s.type, 2 * rows(s) * (s.packed_width() + s.query_width())),
                scratch_of(a),
                {s.type == DType::f32 ? 0 : floats(rows(s) * (s.query_width() + s.heads)), 0}});
  }
  void heads_forward(Stream&, const HeadsForward& a) override {
    notes_.add({"heads_forward",
                {},
                of_type(a.shape.type, (a.kept ? 3 : 2) * turned(a.shape)) + if_any(a.rotation, angles(a.shape))});
  }
  void heads_backward(Stream&, const HeadsBackward& a) override {
    notes_.add({"heads_backward",
                {},
                of_type(a.shape.type, (a.kept ? 3 : 2) * turned(a.shape)) + if_any(a.rotation, angles(a.shape))});
  }

 private:
  static int64_t rows(const AttentionShape& s) { return s.batch * s.steps; }
  /// Values of q and k.
  static int64_t turned(const AttentionShape& s) { return rows(s) * (s.query_width() + s.key_width()); }
  static int64_t angles(const AttentionShape& s) { return floats(s.steps * s.head_width); }
  Notes notes_;
};

class RecordingSequenceOps final : public SequenceOps {
 public:
  explicit RecordingSequenceOps(const Notes& notes) : notes_(notes) {}
  void document_starts(Stream&, const DocumentStarts& a) override {
    notes_.add({"document_starts", {}, floats(2 * a.rows * a.steps)});
  }
  void embedding_forward(Stream&, const EmbeddingForward& a) override {
    notes_.add({"embedding_forward", {}, floats(a.rows * a.steps * a.width * (a.positions ? 3 : 2))});
  }
  void embedding_backward(Stream&, const EmbeddingBackward& a) override {
    notes_.add({"embedding_backward", {}, floats(a.rows * a.steps * a.width * 3)});
  }
  void add_positions(Stream&, const AddPositions& a) override {
    const int64_t n = a.rows * a.steps * a.width;
    notes_.add({"add_positions", {}, floats(n) + of_type(a.type, n)});
  }
  void positions_gradient(Stream&, const PositionsGradient& a) override {
    notes_.add({"positions_gradient", {}, floats(a.rows * a.steps * a.width)});
  }
  void pool_steps(Stream&, const PoolSteps& a) override {
    notes_.add({"pool_steps", {}, floats(a.rows * (a.steps + 1) * a.width)});
  }
  void pool_steps_gradient(Stream&, const PoolStepsGradient& a) override {
    notes_.add({"pool_steps_gradient", {}, floats(a.rows * (a.steps + 1) * a.width)});
  }
  void token_loss(Stream&, const TokenLoss& a) override {
    notes_.add({"token_loss", {}, of_type(a.type, (a.gradient ? 2 : 1) * a.rows * a.stride)});
  }
  void token_loss_parts(Stream&, const TokenLossShard& a) override {
    notes_.add({"token_loss_parts", {}, of_type(a.type, a.rows * a.stride)});
  }
  void token_loss_of_parts(Stream&, const TokenLossShard& a) override {
    notes_.add({"token_loss_of_parts", {}, of_type(a.type, 2 * a.rows * a.stride)});
  }
  void absolute_error(Stream&, const AbsoluteError& a) override {
    notes_.add({"absolute_error", {}, floats(2 * a.rows * a.width)});
  }

 private:
  Notes notes_;
};

}  // namespace

std::unique_ptr<MatMulOps> record_matmul(const Notes& notes) { return std::make_unique<RecordingMatMulOps>(notes); }
std::unique_ptr<NormOps> record_norm(const Notes& notes) { return std::make_unique<RecordingNormOps>(notes); }
std::unique_ptr<AttentionOps> record_attention(const Notes& notes) {
  return std::make_unique<RecordingAttentionOps>(notes);
}
std::unique_ptr<SequenceOps> record_sequence(const Notes& notes) {
  return std::make_unique<RecordingSequenceOps>(notes);
}

}  // namespace amdahl
