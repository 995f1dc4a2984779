#include "ops/attention/cuda_cudnn.h"

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>

#include "ops/conv/cuda_cudnn_handle.h"
#include "ops/gemm/cuda_tuner.h"

namespace amdahl {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;

/// Identifiers of tensors in graphs.
enum Tensor : int64_t { kQ = 1, kK, kV, kOut, kStats, kDOut, kDQ, kDK, kDV };

struct Plan {
  fe::graph::Graph graph;
  std::optional<size_t> workspace_bytes;  // absent: not supported
};

using ProblemKey = std::tuple<int64_t, int64_t, int64_t, int64_t, bool, DType, int64_t, int64_t, bool>;

/// A matrix of rows of each of `heads`, `row` elements apart, as a tensor [batch, heads, steps, head_width].
Tensor_attributes rows_of(const AttentionShape& s, Tensor id, int64_t heads, int64_t row) {
  Tensor_attributes tensor;
  tensor.set_uid(id).set_dim({s.batch, heads, s.steps, s.head_width});
  tensor.set_stride({s.steps * row, s.head_width, row, 1});
  return tensor;
}

Tensor_attributes stats_of(const AttentionShape& s) {
  Tensor_attributes tensor;
  tensor.set_uid(kStats).set_dim({s.batch, s.heads, s.steps, 1}).set_stride({s.heads * s.steps, s.steps, 1, 1});
  tensor.set_data_type(fe::DataType_t::FLOAT);
  return tensor;
}

void place_output(const std::shared_ptr<Tensor_attributes>& tensor, const Tensor_attributes& like) {
  tensor->set_output(true).set_uid(like.get_uid()).set_dim(like.get_dim()).set_stride(like.get_stride());
}

/// Which scores there are, and their scale.
template <class Attributes>
void describe_scores(Attributes& attributes, const AttentionShape& s) {
  attributes.set_causal_mask(s.causal);
  if (s.window > 0) attributes.set_sliding_window_length(static_cast<int>(s.window));
  attributes.set_attn_scale(1.0f / std::sqrt(static_cast<float>(s.head_width)));
}

void describe_forward(fe::graph::Graph& graph, const AttentionShape& s) {
  const int64_t row = s.packed_width(), keys = s.key_heads();
  const auto q = graph.tensor(rows_of(s, kQ, s.heads, row)), k = graph.tensor(rows_of(s, kK, keys, row)),
             v = graph.tensor(rows_of(s, kV, keys, row));
  fe::graph::SDPA_attributes attributes;
  attributes.set_generate_stats(true);
  describe_scores(attributes, s);
  const auto outputs = graph.sdpa(q, k, v, attributes);
  place_output(outputs[0], rows_of(s, kOut, s.heads, s.query_width()));
  place_output(outputs[1], stats_of(s));
  outputs[1]->set_data_type(fe::DataType_t::FLOAT);
}

void describe_backward(fe::graph::Graph& graph, const AttentionShape& s) {
  const int64_t out_row = s.query_width(), row = s.packed_width(), keys = s.key_heads();
  const auto q = graph.tensor(rows_of(s, kQ, s.heads, row)), k = graph.tensor(rows_of(s, kK, keys, row)),
             v = graph.tensor(rows_of(s, kV, keys, row)), out = graph.tensor(rows_of(s, kOut, s.heads, out_row)),
             d_out = graph.tensor(rows_of(s, kDOut, s.heads, out_row)), stats = graph.tensor(stats_of(s));
  fe::graph::SDPA_backward_attributes attributes;
  describe_scores(attributes, s);
  const auto outputs = graph.sdpa_backward(q, k, v, out, d_out, stats, attributes);
  place_output(outputs[0], rows_of(s, kDQ, s.heads, row));
  place_output(outputs[1], rows_of(s, kDK, keys, row));
  place_output(outputs[2], rows_of(s, kDV, keys, row));
}

class LoadedCudnnAttention final : public CudnnAttention {
 public:
  LoadedCudnnAttention(int device_index, std::unique_ptr<CudnnHandle> handle)
      : device_index_(device_index), handle_(std::move(handle)) {}

  std::optional<size_t> workspace_bytes(const AttentionShape& shape, bool backward) override {
    return plan_for(shape, backward).workspace_bytes;
  }

  void forward(cudaStream_t stream, void* workspace, const AttentionForward& a) override {
    const PartPointers parts = parts_of(a.shape, const_cast<void*>(a.qkv));
    std::unordered_map<int64_t, void*> pointers{
        {kQ, parts.q}, {kK, parts.k}, {kV, parts.v}, {kOut, a.out}, {kStats, a.log_sums}};
    execute(plan_for(a.shape, false), stream, workspace, pointers);
  }

  void backward(cudaStream_t stream, void* workspace, const AttentionBackward& a) override {
    const PartPointers parts = parts_of(a.shape, const_cast<void*>(a.qkv)), gradients = parts_of(a.shape, a.d_qkv);
    std::unordered_map<int64_t, void*> pointers{{kQ, parts.q},
                                                {kK, parts.k},
                                                {kV, parts.v},
                                                {kOut, const_cast<void*>(a.out)},
                                                {kStats, const_cast<float*>(a.log_sums)},
                                                {kDOut, const_cast<void*>(a.d_out)},
                                                {kDQ, gradients.q},
                                                {kDK, gradients.k},
                                                {kDV, gradients.v}};
    execute(plan_for(a.shape, true), stream, workspace, pointers);
  }

 private:
  struct PartPointers {
    void *q, *k, *v;
  };
  static PartPointers parts_of(const AttentionShape& s, void* qkv) {
    char* bytes = static_cast<char*>(qkv);
    const size_t queries = static_cast<size_t>(s.query_width()) * size_of(s.type);
    return {bytes, bytes + queries, bytes + queries + static_cast<size_t>(s.key_width()) * size_of(s.type)};
  }

  Plan& plan_for(const AttentionShape& s, bool backward) {
    const ProblemKey key{s.batch, s.steps, s.heads, s.head_width, s.causal, s.type, s.key_heads(), s.window, backward};
    std::unique_ptr<Plan>& plan = plans_[key];
    if (!plan) plan = make_plan(s, backward);
    return *plan;
  }

  /// A plan without workspace_bytes where cuDNN does not support the problem.
  std::unique_ptr<Plan> make_plan(const AttentionShape& s, bool backward) {
    const RelaxedCapture relaxed;  // building loads code
    auto plan = std::make_unique<Plan>();
    try {
      plan->graph.set_io_data_type(s.type == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
          .set_intermediate_data_type(fe::DataType_t::FLOAT)
          .set_compute_data_type(fe::DataType_t::FLOAT);
      backward ? describe_backward(plan->graph, s) : describe_forward(plan->graph, s);
      int64_t bytes = 0;
      if (plan->graph.build(handle_->get(), {fe::HeurMode_t::A}).is_good() &&
          plan->graph.get_workspace_size(bytes).is_good())
        plan->workspace_bytes = static_cast<size_t>(bytes);
    } catch (const std::exception&) {
      plan->workspace_bytes.reset();  // a function that this version of the library lacks
    }
    cudaGetLastError();  // a trial that failed leaves no error for the next call
    return plan;
  }

  void execute(const Plan& plan, cudaStream_t stream, void* workspace, std::unordered_map<int64_t, void*>& pointers) {
    const cudnnHandle_t handle = handle_->on(stream);
    try {
      auto result = plan.graph.execute(handle, pointers, workspace);
      if (!result.is_good()) fail(result.get_message());
    } catch (const std::runtime_error& error) {
      fail(error.what());
    }
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Cause::device_error, fmt::format("GPU {}: cuDNN's attention failed: {}", device_index_, what));
  }

  int device_index_;
  std::unique_ptr<CudnnHandle> handle_;
  std::map<ProblemKey, std::unique_ptr<Plan>> plans_;
};

}  // namespace

std::unique_ptr<CudnnAttention> CudnnAttention::open(int device_index) {
  Availability why;
  std::unique_ptr<CudnnHandle> handle = CudnnHandle::open(device_index, why);
  if (!handle) return nullptr;
  return std::make_unique<LoadedCudnnAttention>(device_index, std::move(handle));
}

}  // namespace amdahl
