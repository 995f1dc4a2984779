#include "ops/cpu_half_ops.h"

#include "ops/cpu_half_memory.h"

namespace amdahl {
namespace {

/// From the first to the last element of `rows` rows of `width`, `stride` elements apart (0: dense).
int64_t span_of(int64_t rows, int64_t width, int64_t stride) {
  return stride == 0 ? rows * width : (rows - 1) * stride + width;
}

/// Dense layers hold f32 and multiply halves, as GEMMs of a GPU do in fast 16-bit mode.
class HalfGemmOps final : public GemmOps {
 public:
  HalfGemmOps(Device& device, std::unique_ptr<GemmOps> exact) : memory_(device), exact_(std::move(exact)) {}

  int64_t mask_bytes(int64_t batch, int64_t width) const override { return exact_->mask_bytes(batch, width); }
  void dense_forward(Stream& stream, const DenseForward& a) override {
    DenseForward dense = a;
    dense.x = memory_.rounded(stream, 0, a.x, a.batch * a.in);
    dense.w = memory_.rounded(stream, 1, a.w, a.out * a.in);
    exact_->dense_forward(stream, dense);
  }
  void dense_backward_input(Stream& stream, const DenseBackwardInput& a) override {
    DenseBackwardInput dense = a;
    dense.dy = memory_.rounded(stream, 0, a.dy, a.batch * a.out);
    dense.w = memory_.rounded(stream, 1, a.w, a.out * a.in);
    exact_->dense_backward_input(stream, dense);
  }
  void dense_backward_weight(Stream& stream, const DenseBackwardWeight& a) override {
    DenseBackwardWeight dense = a;
    dense.x = memory_.rounded(stream, 0, a.x, a.batch * a.in);
    dense.dy = memory_.rounded(stream, 1, a.dy, span_of(a.batch, a.out, a.dy_stride));
    exact_->dense_backward_weight(stream, dense);
  }

 private:
  HalfMemory memory_;
  std::unique_ptr<GemmOps> exact_;
};

class HalfMatMulOps final : public MatMulOps {
 public:
  HalfMatMulOps(Device& device, std::unique_ptr<MatMulOps> exact) : memory_(device), exact_(std::move(exact)) {}

  void matmul(Stream& stream, const MatMul& a) override {
    if (a.type != DType::f16) return exact_->matmul(stream, a);
    MatMul product = a;
    product.type = product.c_type = DType::f32;
    const int64_t a_span = span_of(a.transpose_a ? a.k : a.m, a.transpose_a ? a.m : a.k, a.stride_a);
    const int64_t b_span = span_of(a.transpose_b ? a.n : a.k, a.transpose_b ? a.k : a.n, a.stride_b);
    const int64_t c_span = span_of(a.m, a.n, a.stride_c), values = a.m * a.n;
    product.a = memory_.widened(stream, 0, a.a, a_span);
    product.b = memory_.widened(stream, 1, a.b, b_span);
    product.bias = memory_.widened(stream, 2, a.bias, a.n);
    const bool writes_aux = a.epilogue == MatMulEpilogue::bias_gelu && a.aux;
    float* const aux = writes_aux ? memory_.room(stream, 3, values) : memory_.widened(stream, 3, a.aux, values);
    product.aux = aux;
    float* c = nullptr;
    if (a.c_type == DType::f16) {
      // Between strided rows lie elements that stay as they are.
      c = a.accumulate || a.stride_c != 0 ? memory_.widened(stream, 4, a.c, c_span) : memory_.room(stream, 4, c_span);
      product.c = c;
    }
    exact_->matmul(stream, product);
    if (writes_aux) HalfMemory::narrow(stream, aux, a.aux, values);
    if (c) HalfMemory::narrow(stream, c, a.c, c_span);
  }
  void convert(Stream& stream, const float* from, void* to, DType type, int64_t count) override {
    if (type != DType::f16) return exact_->convert(stream, from, to, type, count);
    HalfMemory::narrow(stream, from, to, count);
  }
  void column_sums(Stream& stream, const void* x, DType type, float* out, int64_t rows, int64_t width,
                   bool accumulate) override {
    const void* values = type == DType::f16 ? memory_.widened(stream, 0, x, rows * width) : x;
    exact_->column_sums(stream, values, DType::f32, out, rows, width, accumulate);
  }
  void activate(Stream& stream, const Activate& a) override {
    if (a.type != DType::f16) return exact_->activate(stream, a);
    Activate pass = a;
    pass.type = DType::f32;
    pass.x = memory_.widened(stream, 0, a.x, (a.gated ? 2 : 1) * a.rows * a.width);
    float* const y = memory_.room(stream, 1, a.rows * a.width);
    pass.y = y;
    exact_->activate(stream, pass);
    HalfMemory::narrow(stream, y, a.y, a.rows * a.width);
  }
  void activate_gradient(Stream& stream, const ActivateGradient& a) override {
    if (a.type != DType::f16) return exact_->activate_gradient(stream, a);
    const int64_t values = (a.gated ? 2 : 1) * a.rows * a.width;
    ActivateGradient pass = a;
    pass.type = DType::f32;
    float* const x = memory_.widened(stream, 0, a.x, values);
    pass.x = pass.d_x = x;
    pass.d_y = memory_.widened(stream, 1, a.d_y, a.rows * a.width);
    exact_->activate_gradient(stream, pass);
    HalfMemory::narrow(stream, x, a.d_x, values);
  }

 private:
  HalfMemory memory_;
  std::unique_ptr<MatMulOps> exact_;
};

class HalfNormOps final : public NormOps {
 public:
  HalfNormOps(Device& device, std::unique_ptr<NormOps> exact) : memory_(device), exact_(std::move(exact)) {}

  void layer_norm_forward(Stream& stream, const LayerNormForward& a) override {
    const int64_t values = a.rows * a.width;
    LayerNormForward norm = a;
    norm.type = norm.y_type = DType::f32;
    if (a.type == DType::f16) norm.delta = memory_.widened(stream, 0, a.delta, values);
    const bool narrows = a.y_type == DType::f16 && a.y;
    float* const y = narrows ? memory_.room(stream, 1, values) : nullptr;
    if (narrows) norm.y = y;
    exact_->layer_norm_forward(stream, norm);
    if (narrows) HalfMemory::narrow(stream, y, a.y, values);
  }
  void layer_norm_backward(Stream& stream, const LayerNormBackward& a) override {
    const int64_t values = a.rows * a.width;
    LayerNormBackward norm = a;
    norm.type = norm.dy_type = DType::f32;
    if (a.dy_type == DType::f16) norm.dy = memory_.widened(stream, 0, a.dy, values);
    const bool narrows = a.type == DType::f16 && a.dx_typed;
    if (narrows) norm.dx_typed = nullptr;
    exact_->layer_norm_backward(stream, norm);
    if (narrows) HalfMemory::narrow(stream, a.dx, a.dx_typed, values);
  }
  void residual_add(Stream& stream, const ResidualAdd& a) override {
    ResidualAdd sum = a;
    sum.type = DType::f32;
    if (a.type == DType::f16) sum.delta = memory_.widened(stream, 0, a.delta, a.count);
    exact_->residual_add(stream, sum);
  }

 private:
  HalfMemory memory_;
  std::unique_ptr<NormOps> exact_;
};

class HalfAttentionOps final : public AttentionOps {
 public:
  HalfAttentionOps(Device& device, std::unique_ptr<AttentionOps> exact) : memory_(device), exact_(std::move(exact)) {}

  void attention_forward(Stream& stream, const AttentionForward& a) override {
    if (a.shape.type != DType::f16) return exact_->attention_forward(stream, a);
    const int64_t values = rows_of(a.shape) * a.shape.query_width();
    AttentionForward attention = a;
    attention.shape.type = DType::f32;
    attention.qkv = memory_.widened(stream, 0, a.qkv, packed(a.shape));
    float* const out = memory_.room(stream, 1, values);
    attention.out = out;
    exact_->attention_forward(stream, attention);
    HalfMemory::narrow(stream, out, a.out, values);
  }
  void attention_backward(Stream& stream, const AttentionBackward& a) override {
    if (a.shape.type != DType::f16) return exact_->attention_backward(stream, a);
    const int64_t values = rows_of(a.shape) * a.shape.query_width();
    AttentionBackward attention = a;
    attention.shape.type = DType::f32;
    attention.qkv = memory_.widened(stream, 0, a.qkv, packed(a.shape));
    attention.out = memory_.widened(stream, 1, a.out, values);
    attention.d_out = memory_.widened(stream, 2, a.d_out, values);
    float* const d_qkv = memory_.room(stream, 3, packed(a.shape));
    attention.d_qkv = d_qkv;
    exact_->attention_backward(stream, attention);
    HalfMemory::narrow(stream, d_qkv, a.d_qkv, packed(a.shape));
  }
  void heads_forward(Stream& stream, const HeadsForward& a) override {
    if (a.shape.type != DType::f16) return exact_->heads_forward(stream, a);
    HeadsForward heads = a;
    heads.shape.type = DType::f32;
    float* const qkv = memory_.widened(stream, 0, a.qkv, packed(a.shape));
    float* const kept = a.kept ? memory_.room(stream, 1, turned(a.shape)) : nullptr;
    heads.qkv = qkv, heads.kept = kept;
    exact_->heads_forward(stream, heads);
    HalfMemory::narrow(stream, qkv, a.qkv, packed(a.shape));
    if (kept) HalfMemory::narrow(stream, kept, a.kept, turned(a.shape));
  }
  void heads_backward(Stream& stream, const HeadsBackward& a) override {
    if (a.shape.type != DType::f16) return exact_->heads_backward(stream, a);
    HeadsBackward heads = a;
    heads.shape.type = DType::f32;
    float* const d_qkv = memory_.widened(stream, 0, a.d_qkv, packed(a.shape));
    heads.d_qkv = d_qkv;
    heads.kept = memory_.widened(stream, 1, a.kept, turned(a.shape));
    exact_->heads_backward(stream, heads);
    HalfMemory::narrow(stream, d_qkv, a.d_qkv, packed(a.shape));
  }

 private:
  static int64_t rows_of(const AttentionShape& shape) { return shape.batch * shape.steps; }
  static int64_t packed(const AttentionShape& shape) { return rows_of(shape) * shape.packed_width(); }
  /// Values of q and k.
  static int64_t turned(const AttentionShape& shape) {
    return rows_of(shape) * (shape.query_width() + shape.key_width());
  }
  HalfMemory memory_;
  std::unique_ptr<AttentionOps> exact_;
};

class HalfSequenceOps final : public SequenceOps {
 public:
  HalfSequenceOps(Device& device, std::unique_ptr<SequenceOps> exact) : memory_(device), exact_(std::move(exact)) {}

  void document_starts(Stream& stream, const DocumentStarts& a) override { exact_->document_starts(stream, a); }
  void embedding_forward(Stream& stream, const EmbeddingForward& a) override { exact_->embedding_forward(stream, a); }
  void embedding_backward(Stream& stream, const EmbeddingBackward& a) override {
    exact_->embedding_backward(stream, a);
  }
  void add_positions(Stream& stream, const AddPositions& a) override {
    AddPositions sum = a;
    sum.type = DType::f32;
    if (a.type == DType::f16) sum.x = memory_.widened(stream, 0, a.x, a.rows * a.steps * a.width);
    exact_->add_positions(stream, sum);
  }
  void positions_gradient(Stream& stream, const PositionsGradient& a) override {
    exact_->positions_gradient(stream, a);
  }
  void pool_steps(Stream& stream, const PoolSteps& a) override { exact_->pool_steps(stream, a); }
  void pool_steps_gradient(Stream& stream, const PoolStepsGradient& a) override {
    exact_->pool_steps_gradient(stream, a);
  }
  void token_loss(Stream& stream, const TokenLoss& a) override {
    if (a.type != DType::f16) return exact_->token_loss(stream, a);
    const int64_t values = a.rows * a.stride;
    TokenLoss loss = a;
    loss.type = DType::f32;
    float* const logits = memory_.widened(stream, 0, a.logits, values);
    loss.logits = logits;
    exact_->token_loss(stream, loss);
    if (a.gradient) HalfMemory::narrow(stream, logits, a.logits, values);
  }
  void token_loss_parts(Stream& stream, const TokenLossShard& a) override {
    exact_->token_loss_parts(stream, widened(stream, a));
  }
  void token_loss_of_parts(Stream& stream, const TokenLossShard& a) override {
    const TokenLossShard loss = widened(stream, a);
    exact_->token_loss_of_parts(stream, loss);
    if (a.type == DType::f16)
      HalfMemory::narrow(stream, static_cast<const float*>(loss.logits), a.logits, a.rows * a.stride);
  }
  void absolute_error(Stream& stream, const AbsoluteError& a) override { exact_->absolute_error(stream, a); }

 private:
  TokenLossShard widened(Stream& stream, const TokenLossShard& a) {
    TokenLossShard loss = a;
    if (a.type != DType::f16) return loss;
    loss.type = DType::f32;
    loss.logits = memory_.widened(stream, 0, a.logits, a.rows * a.stride);
    return loss;
  }

  HalfMemory memory_;
  std::unique_ptr<SequenceOps> exact_;
};

}  // namespace

void use_half_precision(Device& device, Ops::Families& families) {
  families.gemm = std::make_unique<HalfGemmOps>(device, std::move(families.gemm));
  families.matmul = std::make_unique<HalfMatMulOps>(device, std::move(families.matmul));
  families.norm = std::make_unique<HalfNormOps>(device, std::move(families.norm));
  families.attention = std::make_unique<HalfAttentionOps>(device, std::move(families.attention));
  families.sequence = std::make_unique<HalfSequenceOps>(device, std::move(families.sequence));
  families.conv = make_half_conv_ops(device, std::move(families.conv));
  families.math = MathMode::fp16;
}

}  // namespace amdahl
