// Ops: the device operations that models are written in. One implementation per backend, same results within tolerance.
//
// Matrices are row-major f32. B rows of the local micro-batch, I input width, O output width. Every call enqueues on
// `stream` and returns; pointers are device pointers of that stream's device and stay valid until the work is done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "amdahl/plan.h"
#include "device/device.h"
#include "ops/adam_step.h"
#include "ops/peer_update.h"

namespace amdahl {

// A mask is an optional bit copy of "activation != 0" that lets a backend fold the masking into a matrix product: bit
// (row, column) is bit `row * mask_row_bits(width) + column`, lowest bit of a byte first (cuBLASLt's RELU_AUX layout).
// Callers allocate Ops::mask_bytes(batch, width) bytes, 16-byte aligned, and pass null when that is 0.
inline constexpr int64_t mask_row_bits(int64_t width) { return (width + 127) / 128 * 128; }

/// The dropout of a layer's output: kept elements are multiplied by 1/(1-p), others zeroed. The draw of an element
/// depends only on (seed, *step, layer, row_offset + row, column), so any split of the batch gives one device's mask.
struct Dropout {
  double p = 0.0;  // 0: none
  uint64_t seed = 0;
  const uint64_t* step = nullptr;  // device pointer
  uint32_t layer = 0;
  int64_t row_offset = 0;
};

/// y[B,O] = dropout(relu?(x[B,I] w[O,I]^T + bias[O])); bias may be null. With relu and a mask, also fills the mask of
/// y.
struct DenseForward {
  const float* x;
  const float* w;
  const float* bias;
  float* y;
  int64_t batch, in, out;
  bool relu;
  uint8_t* mask = nullptr;
  Dropout dropout = {};  // needs relu
};

/// dx[B,I] = scale * (dy[B,O] w[O,I]), then zero wherever `activation` [B,I] is zero; when dbias is set,
/// dbias[I] = (accumulate ? dbias : 0) + column sums of dx. `activation` null: no masking, `dbias` null: no sums.
/// `activation` is the output of relu and dropout of the layer below, so its zeros are the places without gradient.
struct DenseBackwardInput {
  const float* dy;
  const float* w;
  const float* activation;
  float* dx;
  float* dbias;
  int64_t batch, in, out;
  float scale;
  bool accumulate;
  const uint8_t* mask = nullptr;  // of `activation`, which must be set too
};

/// dw[O,I] = (accumulate ? dw : 0) + dy[B,O]^T x[B,I]; when dbias is set, dbias[O] likewise from column sums of dy.
/// Rows of dy lie `dy_stride` floats apart (0: O), so that a part of a layer's outputs can be done by itself.
struct DenseBackwardWeight {
  const float* x;
  const float* dy;
  float* dw;
  float* dbias;
  int64_t batch, in, out;
  bool accumulate;
  int64_t dy_stride = 0;
  int held_sms = 0;  // multiprocessors that other work holds meanwhile
};

/// prediction[B,O] against target[B,O]: adds sum((p-t)^2) * scale to stats[0] (accumulate, else sets) and writes
/// d_prediction = 2 * scale * (p-t). For the mean over the global batch, scale = 1 / (global_batch * O).
struct MseLoss {
  const float* prediction;
  const float* target;
  float* d_prediction;
  float* stats;  // [0] loss, [1] number of correct rows (left at 0 here)
  int64_t batch, out;
  float scale;
  bool accumulate;
};

/// logits[B,C] against labels[B] (class index as float, as the data set stores targets): stats[0] += sum(-log p) *
/// scale, stats[1] += rows whose largest logit is the label (first on ties), d_logits = scale * (softmax - onehot).
struct CrossEntropyLoss {
  const float* logits;
  const float* labels;
  float* d_logits;
  float* stats;
  int64_t batch, classes;
  float scale;
  bool accumulate;
};

/// velocity = momentum * velocity + grad; param -= lr * velocity (PyTorch's form, no dampening).
struct SgdStep {
  float* params;
  const float* grads;
  float* velocity;
  int64_t n;
  float lr, momentum;
};

class Ops {
 public:
  virtual ~Ops() = default;
  /// Bytes of the mask of an activation [batch, width]; 0 when this backend gains nothing from masks.
  virtual int64_t mask_bytes(int64_t batch, int64_t width) const {
    (void)batch, (void)width;
    return 0;
  }
  /// Whether work on a second stream runs beside the first and fills what it leaves idle: true on GPUs, false where a
  /// stream is a thread that stands for the whole device.
  virtual bool gains_from_second_stream() const { return false; }
  virtual void dense_forward(Stream& stream, const DenseForward& a) = 0;
  virtual void dense_backward_input(Stream& stream, const DenseBackwardInput& a) = 0;
  virtual void dense_backward_weight(Stream& stream, const DenseBackwardWeight& a) = 0;
  /// Both gradients of one layer; `input` is null for the first layer. They share dy, so a backend may do them at once.
  virtual void dense_backward(Stream& stream, const DenseBackwardWeight& weight, const DenseBackwardInput* input) {
    dense_backward_weight(stream, weight);
    if (input) dense_backward_input(stream, *input);
  }
  /// Whether dense_backward_update of such a layer is one pass: the gradient never goes to memory.
  virtual bool fuses_update(int64_t batch, int64_t in, int64_t out) const {
    (void)batch, (void)in, (void)out;
    return false;
  }
  /// The weight gradient (without sums, not accumulated) and one step of Adam on the weights, of which `adam` names the
  /// place. Whether `weight.dw` holds the gradient afterwards is up to the backend.
  virtual void dense_backward_update(Stream& stream, const DenseBackwardWeight& weight, const AdamStep& adam) {
    dense_backward_weight(stream, weight);
    adam_step(stream, adam);
  }
  /// Whether dense_backward gains over the two single calls at this many rows: then weight gradients come layer by
  /// layer, and otherwise a strategy that overlaps communication may ask for another order.
  virtual bool fuses_backward(int64_t batch) const {
    (void)batch;
    return false;
  }
  virtual void mse_loss(Stream& stream, const MseLoss& a) = 0;
  virtual void cross_entropy_loss(Stream& stream, const CrossEntropyLoss& a) = 0;
  virtual void adam_step(Stream& stream, const AdamStep& a) = 0;
  virtual void sgd_step(Stream& stream, const SgdStep& a) = 0;
  /// Bytes of flags that each rank of a peer group brings; 0: this backend has no peer updates.
  virtual size_t peer_flag_bytes() const { return 0; }
  /// This rank's end of a group whose devices all reach each other. Null where the backend has no peer updates.
  virtual std::unique_ptr<PeerUpdater> join_peers(const PeerGroup& group) {
    (void)group;
    return nullptr;
  }
  /// out[i, :] = table[indices[i], :] for `rows` rows of `width` floats.
  virtual void gather_rows(Stream& stream, const float* table, const int32_t* indices, float* out, int64_t rows,
                           int64_t width) = 0;
  /// *counter += 1, in stream order.
  virtual void increment(Stream& stream, uint64_t* counter) = 0;
};

/// Ops may time alternatives when a problem is first seen outside a capture: run each step once eagerly before
/// capturing or timing it.
struct OpsOptions {
  MathMode math = MathMode::fp32;
  bool deterministic = false;  // only algorithms that give bit-equal reruns
};

/// A device's Ops, made when they are first used: measurements that need none run where the library for them is
/// missing. Copies are the same Ops.
class OpsOnDemand {
 public:
  OpsOnDemand(Ops& made) : find_([&made]() -> Ops& { return made; }) {}  // NOLINT(google-explicit-constructor)
  explicit OpsOnDemand(std::function<Ops&()> find) : find_(std::move(find)) {}
  Ops& operator*() const { return find_(); }
  Ops* operator->() const { return &find_(); }

 private:
  std::function<Ops&()> find_;
};

/// Throws Error{usage} for a math mode that the backend lacks (CPU has fp32 only).
std::unique_ptr<Ops> make_cpu_ops(Device& device, const OpsOptions& options);
std::unique_ptr<Ops> make_cuda_ops(Device& device, const OpsOptions& options);
Availability cpu_ops_availability();
std::string cpu_ops_version();  // oneDNN's, empty when unavailable

}  // namespace amdahl
