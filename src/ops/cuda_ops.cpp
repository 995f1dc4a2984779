// The CUDA families with one launch per call, and the Ops of a CUDA device.
#include "ops/cuda_ops.h"

#include "ops/cuda_compression.h"
#include "ops/cuda_context.h"

namespace amdahl {
namespace {

class CudaLossOps final : public LossOps {
 public:
  explicit CudaLossOps(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}
  void mse_loss(Stream& stream, const MseLoss& a) override { launch_mse_loss(context_->begin(stream).launch, a); }
  void cross_entropy_loss(Stream& stream, const CrossEntropyLoss& a) override {
    launch_cross_entropy_loss(context_->begin(stream).launch, a);
  }

 private:
  std::shared_ptr<CudaContext> context_;
};

class CudaOptimizerOps final : public OptimizerOps {
 public:
  explicit CudaOptimizerOps(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}
  void adam_step(Stream& stream, const AdamStep& a) override { launch_adam(context_->begin(stream).launch, a); }
  void sgd_step(Stream& stream, const SgdStep& a) override { launch_sgd(context_->begin(stream).launch, a); }
  void set_rate(Stream& stream, const SetRate& a) override { launch_set_rate(context_->begin(stream).launch, a); }
  void sum_bits(Stream& stream, const float* values, int64_t n, uint32_t* sum) override {
    launch_sum_bits(context_->begin(stream).launch, values, n, sum);
  }
  void sum_of_squares(Stream& stream, const SumOfSquares& a) override {
    launch_sum_of_squares(context_->begin(stream).launch, a);
  }
  void clip_scale(Stream& stream, const ClipScale& a) override { launch_clip_scale(context_->begin(stream).launch, a); }
  bool has_peer_updates() const override { return true; }
  std::unique_ptr<PeerUpdater> join_peers(const PeerMemory& memory) override {
    return make_cuda_peer_updater(context_->device(), memory);
  }

 private:
  std::shared_ptr<CudaContext> context_;
};

class CudaElementwiseOps final : public ElementwiseOps {
 public:
  explicit CudaElementwiseOps(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}
  void bias_activation(Stream& stream, const BiasActivation& a) override {
    const KernelLaunch& launch = context_->begin(stream).launch;
    const bool drops = a.dropout.p > 0;  // the mask describes the output after dropout, so the dropout kernel writes it
    launch_bias_relu(launch, a.y, a.bias, a.relu, drops ? nullptr : a.mask, a.batch, a.width);
    if (drops) launch_dropout(launch, {nullptr, nullptr, a.bias, a.y, a.batch, 0, a.width, a.relu, a.mask, a.dropout});
  }
  void mask_and_sum(Stream& stream, const MaskAndSum& a) override {
    if (a.activation || a.mask || a.dbias) launch_mask_and_sum(context_->begin(stream).launch, a);
  }
  void gather_rows(Stream& stream, const float* table, const int32_t* indices, float* out, int64_t rows,
                   int64_t width) override {
    launch_gather_rows(context_->begin(stream).launch, table, indices, out, rows, width);
  }
  void sum_arrays(Stream& stream, const SumArrays& a) override { launch_sum_arrays(context_->begin(stream).launch, a); }
  void increment(Stream& stream, uint64_t* counter, const float* unless) override {
    launch_increment(context_->begin(stream).launch, counter, unless);
  }

 private:
  std::shared_ptr<CudaContext> context_;
};

class CudaCompressionOps final : public CompressionOps {
 public:
  explicit CudaCompressionOps(std::shared_ptr<CudaContext> context) : context_(std::move(context)) {}
  void round(Stream& stream, const RoundValues& a) override { launch_round(context_->begin(stream).launch, a); }
  void compress_int8(Stream& stream, const CompressValues& a) override {
    launch_compress_int8(context_->begin(stream).launch, a);
  }
  void sum_int8(Stream& stream, const SumMessages& a) override { launch_sum_int8(context_->begin(stream).launch, a); }
  void compress_topk(Stream& stream, const CompressValues& a) override {
    launch_compress_topk(context_->begin(stream).launch, a);
  }
  void sum_topk(Stream& stream, const SumMessages& a) override { launch_sum_topk(context_->begin(stream).launch, a); }

 private:
  std::shared_ptr<CudaContext> context_;
};

}  // namespace

std::unique_ptr<Ops> make_cuda_ops(Device& device, const OpsOptions& options) {
  if (device.backend() != BackendKind::cuda) throw Error(Cause::internal, "CUDA ops need a CUDA device");
  const auto context = std::make_shared<CudaContext>(device, options);
  return std::make_unique<Ops>(Ops::Families{.gemm = make_cuda_gemm_ops(context),
                                             .elementwise = std::make_unique<CudaElementwiseOps>(context),
                                             .loss = std::make_unique<CudaLossOps>(context),
                                             .optimizer = std::make_unique<CudaOptimizerOps>(context),
                                             .matmul = make_cuda_matmul_ops(context),
                                             .norm = make_cuda_norm_ops(context),
                                             .attention = make_cuda_attention_ops(context),
                                             .sequence = make_cuda_sequence_ops(context),
                                             .recurrent = make_cuda_recurrent_ops(context),
                                             .conv = make_cuda_conv_ops(context),
                                             .compression = std::make_unique<CudaCompressionOps>(context),
                                             .math = options.math,
                                             .gains_from_second_stream = true});
}

}  // namespace amdahl
