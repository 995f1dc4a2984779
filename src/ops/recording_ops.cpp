#include "ops/recording_ops.h"

#include "ops/recording_notes.h"

namespace amdahl {
namespace {

class RecordingGemmOps final : public GemmOps {
 public:
  explicit RecordingGemmOps(const Notes& notes) : notes_(notes) {}
  void dense_forward(Stream&, const DenseForward& a) override {
    notes_.add({"dense_forward",
                {{a.batch, a.out, a.in}},
                floats(a.batch * a.in + a.out * a.in + a.batch * a.out) + if_any(a.bias, floats(a.out)),
                scratch_of(a)});
  }
  void dense_backward_input(Stream&, const DenseBackwardInput& a) override {
    notes_.add({"dense_backward_input",
                {{a.batch, a.in, a.out}},
                floats(a.batch * a.out + a.out * a.in + a.batch * a.in) + if_any(a.activation, floats(a.batch * a.in)),
                scratch_of(a)});
  }
  void dense_backward_weight(Stream&, const DenseBackwardWeight& a) override {
    notes_.add({"dense_backward_weight",
                {{a.out, a.in, a.batch}},
                floats(a.batch * a.out + a.batch * a.in + a.out * a.in * (a.accumulate ? 2 : 1)),
                scratch_of(a)});
  }
  bool fuses_backward(int64_t batch) const override {
    return notes_.gpu() && has_small_kernels(notes_.math) && batch <= kSmallRows;
  }

 private:
  Notes notes_;
};

class RecordingElementwiseOps final : public ElementwiseOps {
 public:
  explicit RecordingElementwiseOps(const Notes& notes) : notes_(notes) {}
  void bias_activation(Stream&, const BiasActivation& a) override {
    notes_.add({"bias_activation", {}, floats(2 * a.batch * a.width)});
  }
  void mask_and_sum(Stream&, const MaskAndSum& a) override {
    notes_.add({"mask_and_sum", {}, floats((a.activation ? 3 : 2) * a.batch * a.width)});
  }
  void sum_arrays(Stream&, const SumArrays& a) override {
    notes_.add({"sum_arrays", {}, floats(a.n * (a.num_arrays + (a.accumulate ? 2 : 1)))});
  }
  void gather_rows(Stream&, const float*, const int32_t*, float*, int64_t rows, int64_t width) override {
    notes_.add({"gather_rows", {}, floats(2 * rows * width)});
  }
  void increment(Stream&, uint64_t*, const float*) override { notes_.add({"increment"}); }

 private:
  Notes notes_;
};

class RecordingLossOps final : public LossOps {
 public:
  explicit RecordingLossOps(const Notes& notes) : notes_(notes) {}
  void mse_loss(Stream&, const MseLoss& a) override { notes_.add({"mse_loss", {}, floats(3 * a.batch * a.out)}); }
  void cross_entropy_loss(Stream&, const CrossEntropyLoss& a) override {
    notes_.add({"cross_entropy_loss", {}, floats(2 * a.batch * a.classes)});
  }

 private:
  Notes notes_;
};

class RecordingOptimizerOps final : public OptimizerOps {
 public:
  explicit RecordingOptimizerOps(const Notes& notes) : notes_(notes) {}
  void adam_step(Stream&, const AdamStep& a) override { notes_.add({"adam_step", {}, floats(7 * a.n)}); }
  void sgd_step(Stream&, const SgdStep& a) override { notes_.add({"sgd_step", {}, floats(5 * a.n)}); }
  void set_rate(Stream&, const SetRate&) override { notes_.add({"set_rate"}); }
  void sum_of_squares(Stream&, const SumOfSquares& a) override { notes_.add({"sum_of_squares", {}, floats(a.n)}); }
  void clip_scale(Stream&, const ClipScale&) override { notes_.add({"clip_scale"}); }
  void sum_bits(Stream&, const float*, int64_t n, uint32_t*) override { notes_.add({"sum_bits", {}, floats(n)}); }

 private:
  Notes notes_;
};

int64_t num_rows(const RecurrentShape& s) { return s.batch * s.steps; }
/// Elements of the gates, of which GPUs have four also of a GRU in backward, and of the states, in rows of 16.
int64_t gpu_saved_bytes(const RecurrentShape& s) {
  const auto padded = [](int64_t width) { return (width + 15) / 16 * 16; };
  return floats(num_rows(s) * (padded(num_gates(s.cell) * s.hidden) + 2 * padded(s.hidden)));
}

class RecordingRecurrentShards final : public RecurrentShardOps {
 public:
  explicit RecordingRecurrentShards(const Notes& notes) : notes_(notes) {}
  bool takes(DType) const override { return true; }
  int64_t saved_bytes(const RecurrentShard& a) const override { return cpu_saved_bytes(a); }
  void begin(Stream&, const RecurrentShard& a) override {
    notes_.add(
        {"recurrent_begin", {{num_rows(a.shape), gates(a), a.shape.input}}, floats(num_rows(a.shape) * gates(a))});
  }
  void step(Stream&, const RecurrentShard& a, int64_t, float*) override {
    notes_.add({"recurrent_step",
                {{a.shape.batch, gates(a), a.shape.hidden}},
                floats(a.shape.batch * (gates(a) + 2 * a.held)),
                scratch_of(a)});
  }
  void take_states(Stream&, const RecurrentShard& a, int64_t, const float*, float*) override {
    notes_.add({"recurrent_take_states", {}, floats(3 * a.shape.batch * a.shape.hidden)});
  }
  void step_gradients(Stream&, const RecurrentShard& a, int64_t, const float*, const Work&) override {
    notes_.add({"recurrent_step_gradients",
                {{a.shape.batch, a.shape.hidden, gates(a)}},
                floats(2 * a.shape.batch * gates(a)),
                scratch_of(a)});
  }
  void finish_gradients(Stream&, const RecurrentShard& a, const Work&, const RecurrentWeights<float>&, float* dx,
                        bool) override {
    const int64_t rows = num_rows(a.shape);
    std::vector<RecordedProduct> products{{gates(a), a.shape.input, rows}, {gates(a), a.shape.hidden, rows}};
    if (dx) products.push_back({rows, a.shape.input, gates(a)});
    notes_.add({"recurrent_finish_gradients", products, floats(rows * (gates(a) + a.shape.input + a.shape.hidden))});
  }

 private:
  static int64_t gates(const RecurrentShard& a) { return num_gates(a.shape.cell) * a.held; }
  Notes notes_;
};

class RecordingRecurrentOps final : public RecurrentOps {
 public:
  explicit RecordingRecurrentOps(const Notes& notes) : notes_(notes), shards_(notes) {}
  RecurrentShardOps& shards() override { return shards_; }
  int64_t saved_bytes(const RecurrentShape& shape) const override {
    return notes_.gpu() ? gpu_saved_bytes(shape) : cpu_saved_bytes(shape);
  }
  void recurrent_forward(Stream&, const RecurrentForward& a) override {
    notes_.add({"recurrent_forward", products(a.shape), traffic(a.shape), scratch_of(a)});
  }
  /// A GPU has the gradients of all gates, padded to four, before the products with them.
  void recurrent_backward(Stream&, const RecurrentBackward& a) override {
    const RecurrentShape& s = a.shape;
    std::vector<RecordedProduct> all = products(s);
    for (RecordedProduct product : products(s)) all.push_back({product.n, product.k, product.m * product.count});
    if (!a.dx) all.erase(all.begin());
    notes_.add(
        {"recurrent_backward", all, 2 * traffic(s), scratch_of(a), {0, of_type(s.type, num_rows(s) * 4 * s.hidden)}});
  }

 private:
  /// The first step's too, whose states are zero, as is customary.
  static std::vector<RecordedProduct> products(const RecurrentShape& s) {
    const int64_t gates = num_gates(s.cell) * s.hidden;
    std::vector<RecordedProduct> all{{num_rows(s), gates, s.input}};
    all.push_back({s.batch, gates, s.hidden, s.steps});
    return all;
  }
  static int64_t traffic(const RecurrentShape& s) {
    return floats(num_rows(s) * (s.input + (num_gates(s.cell) + 2) * s.hidden));
  }
  Notes notes_;
  RecordingRecurrentShards shards_;
};

class RecordingConvOps final : public ConvOps {
 public:
  explicit RecordingConvOps(const Notes& notes) : notes_(notes) {}
  void conv_forward(Stream&, const ConvForward& a) override {
    notes_.add({"conv_forward", {product(a.shape)}, traffic(a.shape), scratch_of(a)});
  }
  void conv_backward_data(Stream&, const ConvBackwardData& a) override {
    notes_.add({"conv_backward_data", {product(a.shape)}, traffic(a.shape), scratch_of(a)});
  }
  void conv_backward_filter(Stream&, const ConvBackwardFilter& a) override {
    notes_.add({"conv_backward_filter", {product(a.shape)}, traffic(a.shape), scratch_of(a)});
  }
  void batch_norm_forward(Stream&, const BatchNormForward& a) override {
    const int64_t n = a.count * a.channels;
    notes_.add({"batch_norm_forward",
                {},
                of_type(a.type, 2 * n) + of_type(a.y_type, n) + if_any(a.residual, of_type(a.y_type, n)),
                normalisation_scratch(a.channels)});
  }
  void batch_norm_backward(Stream&, const BatchNormBackward& a) override {
    const int64_t n = a.count * a.channels;
    notes_.add({"batch_norm_backward",
                {},
                of_type(a.type, 3 * n) + of_type(a.y_type, 2 * n) + if_any(a.y, of_type(a.y_type, 2 * n)),
                normalisation_scratch(a.channels)});
  }
  void average_pool(Stream&, const void*, float*, int64_t rows, int64_t pixels, int64_t channels, DType type) override {
    notes_.add({"average_pool", {}, of_type(type, rows * pixels * channels) + floats(rows * channels)});
  }
  void average_pool_gradient(Stream&, const float*, void*, int64_t rows, int64_t pixels, int64_t channels,
                             DType type) override {
    notes_.add({"average_pool_gradient", {}, of_type(type, rows * pixels * channels) + floats(rows * channels)});
  }
  void max_pool(Stream&, const MaxPoolForward& a) override {
    const int64_t outputs = a.windows.outputs();
    notes_.add({"max_pool", {}, of_type(a.type, a.windows.inputs()) + of_type(a.y_type, outputs) + outputs});
  }
  void max_pool_gradient(Stream&, const MaxPoolBackward& a) override {
    const int64_t outputs = a.windows.outputs(),
                  read = of_type(a.y_type, outputs) + if_any(a.dy_added, of_type(a.y_type, outputs));
    notes_.add({"max_pool_gradient", {}, of_type(a.type, a.windows.inputs()) + read + outputs});
  }

 private:
  static RecordedProduct product(const ConvShape& s) {
    return {s.rows * s.out_height() * s.out_width(), s.out_channels, s.kernel * s.kernel * s.in_channels};
  }
  static int64_t traffic(const ConvShape& s) {
    return of_type(s.type,
                   s.rows * (s.height * s.width * s.in_channels + s.out_height() * s.out_width() * s.out_channels) +
                       s.out_channels * s.kernel * s.kernel * s.in_channels);
  }
  Notes notes_;
};

class RecordingCompressionOps final : public CompressionOps {
 public:
  explicit RecordingCompressionOps(const Notes& notes) : notes_(notes) {}
  void round(Stream&, const RoundValues& a) override {
    notes_.add({"round", {}, of_type(a.from_type, a.n) + of_type(a.to_type, a.n)});
  }
  void compress_int8(Stream&, const CompressValues& a) override { notes_.add({"compress_int8", {}, floats(3 * a.n)}); }
  void sum_int8(Stream&, const SumMessages& a) override {
    notes_.add({"sum_int8", {}, a.ranks * a.message_bytes + floats(a.n)});
  }
  void compress_topk(Stream&, const CompressValues& a) override { notes_.add({"compress_topk", {}, floats(3 * a.n)}); }
  void sum_topk(Stream&, const SumMessages& a) override {
    notes_.add({"sum_topk", {}, a.ranks * a.message_bytes + floats(a.n)});
  }

 private:
  Notes notes_;
};

}  // namespace

double OpRecording::flops() const {
  double sum = 0;
  for (const RecordedOp& op : ops)
    for (const RecordedProduct& product : op.products) sum += product.flops();
  return sum;
}

int64_t OpRecording::bytes() const {
  int64_t sum = 0;
  for (const RecordedOp& op : ops) sum += op.bytes;
  return sum;
}

CpuScratch OpRecording::scratch() const {
  CpuScratch largest;
  for (const RecordedOp& op : ops) largest.include(op.scratch);
  return largest;
}

GpuScratch OpRecording::gpu_scratch() const {
  GpuScratch largest;
  for (const RecordedOp& op : ops) largest.include(op.gpu_scratch);
  return largest;
}

std::unique_ptr<Ops> make_recording_ops(BackendKind backend, MathMode math, OpRecording& recording) {
  const Notes notes{recording, backend, math};
  return std::make_unique<Ops>(Ops::Families{.gemm = std::make_unique<RecordingGemmOps>(notes),
                                             .elementwise = std::make_unique<RecordingElementwiseOps>(notes),
                                             .loss = std::make_unique<RecordingLossOps>(notes),
                                             .optimizer = std::make_unique<RecordingOptimizerOps>(notes),
                                             .matmul = record_matmul(notes),
                                             .norm = record_norm(notes),
                                             .attention = record_attention(notes),
                                             .sequence = record_sequence(notes),
                                             .recurrent = std::make_unique<RecordingRecurrentOps>(notes),
                                             .conv = std::make_unique<RecordingConvOps>(notes),
                                             .compression = std::make_unique<RecordingCompressionOps>(notes),
                                             .math = math,
                                             .gains_from_second_stream = backend == BackendKind::cuda});
}

}  // namespace amdahl
