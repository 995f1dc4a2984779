#include "ops/conv/cuda_cudnn_conv.h"

#include <cudnn_frontend.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "device/cuda_stream.h"
#include "ops/conv/cuda_conv.h"
#include "ops/conv/cuda_cudnn_handle.h"

namespace amdahl {
namespace {

namespace fe = cudnn_frontend;
using ImageTensor = fe::graph::Tensor_attributes;

constexpr int64_t kMostWorkspace = int64_t{256} << 20;
constexpr size_t kMostTimed = 6;  // algorithms of a problem, in the order of cuDNN's heuristics

enum class ConvProduct { forward, backward_data, backward_filter };
/// Identifiers of tensors in graphs: the two operands in the order of a call, and the result.
enum ConvOperand : int64_t { kFirst = 1, kSecond, kResult };

struct ConvKey {
  ConvProduct product;
  DType type;
  int64_t rows, height, width, in_channels, out_channels, kernel, stride, padding;
  auto operator<=>(const ConvKey&) const = default;
};

std::string text_of(const ConvKey& k) {
  constexpr const char* kNames[] = {"convolution", "convolution gradient of data", "convolution gradient of filters"};
  return fmt::format("{} {}x{}x{}x{} by {} {}x{} stride {} {}", kNames[static_cast<size_t>(k.product)], k.rows,
                     k.height, k.width, k.in_channels, k.out_channels, k.kernel, k.kernel, k.stride, to_string(k.type));
}

/// A graph of a problem with one type of its result.
struct ConvGraph {
  fe::graph::Graph graph;
  DType result_type = DType::f32;
};

/// The algorithms of a problem that are built.
struct ConvPlan {
  struct Algorithm {
    std::shared_ptr<ConvGraph> graph;
    int64_t index = 0;  // in the graph's plans
    size_t workspace_bytes = 0;
  };
  std::vector<Algorithm> algorithms;  // the first one is used
  bool chosen = false;
};

fe::DataType_t cudnn_type(DType type) {
  return type == DType::bf16  ? fe::DataType_t::BFLOAT16
         : type == DType::f16 ? fe::DataType_t::HALF
                              : fe::DataType_t::FLOAT;
}

/// A tensor of dimensions [n, c, h, w] whose channels are neighbours in memory.
ImageTensor tensor_of(ConvOperand id, int64_t n, int64_t c, int64_t h, int64_t w) {
  ImageTensor tensor;
  tensor.set_uid(id).set_dim({n, c, h, w}).set_stride({h * w * c, 1, w * c, c});
  return tensor;
}
ImageTensor input_of(ConvOperand id, const ConvShape& s) {
  return tensor_of(id, s.rows, s.in_channels, s.height, s.width);
}
ImageTensor output_of(ConvOperand id, const ConvShape& s) {
  return tensor_of(id, s.rows, s.out_channels, s.out_height(), s.out_width());
}
ImageTensor filter_of(ConvOperand id, const ConvShape& s) {
  return tensor_of(id, s.out_channels, s.in_channels, s.kernel, s.kernel);
}

template <class Attributes>
Attributes attributes_of(const ConvShape& s) {
  Attributes attributes;
  attributes.set_padding({s.padding, s.padding}).set_stride({s.stride, s.stride}).set_dilation({1, 1});
  return attributes;
}

void describe(fe::graph::Graph& graph, ConvProduct product, const ConvShape& s, DType result_type) {
  graph.set_io_data_type(cudnn_type(s.type))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  std::shared_ptr<ImageTensor> result;
  ImageTensor like;
  if (product == ConvProduct::forward) {
    result = graph.conv_fprop(graph.tensor(input_of(kFirst, s)), graph.tensor(filter_of(kSecond, s)),
                              attributes_of<fe::graph::Conv_fprop_attributes>(s));
    like = output_of(kResult, s);
  } else if (product == ConvProduct::backward_data) {
    result = graph.conv_dgrad(graph.tensor(output_of(kFirst, s)), graph.tensor(filter_of(kSecond, s)),
                              attributes_of<fe::graph::Conv_dgrad_attributes>(s));
    like = input_of(kResult, s);
  } else {
    result = graph.conv_wgrad(graph.tensor(output_of(kSecond, s)), graph.tensor(input_of(kFirst, s)),
                              attributes_of<fe::graph::Conv_wgrad_attributes>(s));
    like = filter_of(kResult, s);
  }
  result->set_output(true).set_uid(kResult).set_dim(like.get_dim()).set_stride(like.get_stride());
  result->set_data_type(cudnn_type(result_type));
}

int64_t result_values(ConvProduct product, const ConvShape& s) {
  switch (product) {
    case ConvProduct::forward:
      return s.rows * s.out_height() * s.out_width() * s.out_channels;
    case ConvProduct::backward_data:
      return s.rows * s.height * s.width * s.in_channels;
    default:
      return s.out_channels * s.kernel * s.kernel * s.in_channels;
  }
}

class LoadedCudnnConvolutions final : public CudnnConvolutions {
 public:
  LoadedCudnnConvolutions(CudaContext& context, std::unique_ptr<CudnnHandle> handle)
      : context_(context), handle_(std::move(handle)) {}

  void forward(Stream& stream, const ConvForward& a) override {
    run(stream, {ConvProduct::forward, a.shape, a.x, a.w, a.y, a.shape.type, false});
  }
  void backward_data(Stream& stream, const ConvBackwardData& a) override {
    run(stream, {ConvProduct::backward_data, a.shape, a.dy, a.w, a.dx, a.shape.type, a.accumulate});
  }
  void backward_filter(Stream& stream, const ConvBackwardFilter& a) override {
    run(stream, {ConvProduct::backward_filter, a.shape, a.x, a.dy, a.dw, DType::f32, a.accumulate});
  }

 private:
  struct Call {
    ConvProduct product;
    const ConvShape& shape;
    const void* first;
    const void* second;
    void* result;
    DType result_type;
    bool accumulate;
  };

  void run(Stream& stream, const Call& call) {
    if (result_values(call.product, call.shape) == 0) return;
    StreamMemory& memory = context_.begin(stream);
    const ConvShape& s = call.shape;
    const ConvKey key{call.product,  s.type,         s.rows,   s.height, s.width,
                      s.in_channels, s.out_channels, s.kernel, s.stride, s.padding};
    ConvPlan& plan = plan_for(key, call);
    if (!plan.chosen && !is_capturing(stream)) choose(stream, key, plan, call);
    // cuDNN sets its result: what adds to the target, or has another type, is computed beside it.
    const ConvPlan::Algorithm& algorithm = plan.algorithms.front();
    const DType type = algorithm.graph->result_type;
    const bool beside = call.accumulate || type != call.result_type;
    const size_t workspace = whole_lines(algorithm.workspace_bytes);
    const size_t result = beside ? result_bytes(type, call) : 0;
    auto* scratch = static_cast<std::byte*>(context_.workspace(memory, workspace + result));
    void* target = beside ? scratch + workspace : call.result;
    execute(algorithm, memory.launch.stream, scratch, call, target);
    if (beside)
      launch_copy_or_add(memory.launch, target, type, call.result, call.result_type,
                         result_values(call.product, call.shape), call.accumulate);
  }

  static size_t whole_lines(size_t bytes) { return (bytes + 255) / 256 * 256; }
  static size_t result_bytes(DType type, const Call& call) {
    return static_cast<size_t>(result_values(call.product, call.shape)) * size_of(type);
  }

  ConvPlan& plan_for(const ConvKey& key, const Call& call) {
    std::unique_ptr<ConvPlan>& plan = plans_[key];
    if (plan) return *plan;
    // Gradients of filters from inputs of 16 bits: rounded to those as PyTorch's are, or in f32; the faster is used.
    std::string problem;
    auto made = std::make_unique<ConvPlan>();
    add_algorithms(*made, call, call.shape.type, problem);
    const bool one_is_enough = context_.options().deterministic && !made->algorithms.empty();
    if (call.result_type != call.shape.type && !one_is_enough) add_algorithms(*made, call, call.result_type, problem);
    if (made->algorithms.empty())
      throw Error(Cause::environment_missing, fmt::format("cuDNN has no algorithm for a {}: {}", text_of(key), problem),
                  "another math mode, a newer cuDNN, or a CPU backend");
    made->chosen = made->algorithms.size() == 1;
    plan = std::move(made);
    return *plan;
  }

  void add_algorithms(ConvPlan& plan, const Call& call, DType result_type, std::string& problem) {
    const RelaxedCapture relaxed;  // building loads code
    const auto graph = std::make_shared<ConvGraph>();
    graph->result_type = result_type;
    try {
      build(plan, graph, call, problem);
    } catch (const std::exception& error) {  // a function that this version of the library lacks
      problem = error.what();
    }
    cudaGetLastError();  // a trial that failed leaves no error for the next call
  }

  void build(ConvPlan& plan, const std::shared_ptr<ConvGraph>& owner, const Call& call, std::string& problem) {
    fe::graph::Graph& graph = owner->graph;
    describe(graph, call.product, call.shape, owner->result_type);
    const auto good = [&](fe::error_t result) {
      if (!result.is_good()) problem = result.get_message();
      return result.is_good();
    };
    if (!good(graph.validate()) || !good(graph.build_operation_graph(handle_->get())) ||
        !good(graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK})))
      return;
    graph.deselect_workspace_greater_than(kMostWorkspace).deselect_numeric_notes(unwanted(call.shape.type));
    const size_t wanted = plan.algorithms.size() + (context_.options().deterministic ? 1 : kMostTimed);
    for (int64_t i = 0; i < graph.get_execution_plan_count() && plan.algorithms.size() < wanted; ++i) {
      int64_t bytes = 0;
      if (good(graph.build_plan_at_index(i)) && good(graph.get_workspace_size_plan_at_index(i, bytes)))
        plan.algorithms.push_back({owner, i, static_cast<size_t>(std::max<int64_t>(bytes, 0))});
    }
  }

  /// What algorithms must not do.
  std::vector<fe::NumericalNote_t> unwanted(DType type) const {
    using Note = fe::NumericalNote_t;
    std::vector<Note> notes{Note::DOWN_CONVERT_INPUTS, Note::REDUCED_PRECISION_REDUCTION, Note::FFT,
                            Note::WINOGRAD_TILE_13x13};
    if (type == DType::f32 && context_.options().math == MathMode::fp32) notes.push_back(Note::TENSOR_CORE);
    if (type != DType::f32) notes.push_back(Note::WINOGRAD);  // it would round transformed values to 16 bits
    if (context_.options().deterministic) notes.push_back(Note::NONDETERMINISTIC);
    return notes;
  }

  /// Puts the fastest algorithm first, and forgets the others.
  void choose(Stream& stream, const ConvKey& key, ConvPlan& plan, const Call& call) {
    context_.tuner().let_finish(as_cuda(stream));
    size_t workspace = 0;
    for (const auto& algorithm : plan.algorithms)
      workspace = std::max(workspace, whole_lines(algorithm.workspace_bytes));
    const TunerMemory memory(context_.tuner(), context_.index(), workspace + result_bytes(DType::f32, call));
    auto* scratch = reinterpret_cast<std::byte*>(memory.data());
    std::optional<ConvPlan::Algorithm> best;
    double best_us = 0;
    std::string problem;
    for (const auto& algorithm : plan.algorithms) {
      try {
        const double us = context_.tuner().time_us(
            [&](cudaStream_t timed) { execute(algorithm, timed, scratch, call, scratch + workspace); });
        if (!best || us < best_us) best = algorithm, best_us = us;
      } catch (const Error& error) {  // it builds but does not run here
        if (error.cause() == Cause::out_of_memory) throw;
        problem = error.what();
        cudaGetLastError();
      }
    }
    if (!best)
      throw Error(Cause::environment_missing, fmt::format("cuDNN does not run a {}: {}", text_of(key), problem),
                  "another math mode, or a newer cuDNN");
    std::string name;
    if (!best->graph->graph.get_plan_name_at_index(best->index, name).is_good()) name = "unnamed";
    context_.note_choice(fmt::format("{}: {} to {} ({:.2f} us, fastest of {})", text_of(key), name,
                                     to_string(best->graph->result_type), best_us, plan.algorithms.size()));
    plan.algorithms.assign(1, ConvPlan::Algorithm(*best));
    plan.chosen = true;
  }

  void execute(const ConvPlan::Algorithm& algorithm, cudaStream_t stream, void* workspace, const Call& call,
               void* result) {
    const cudnnHandle_t handle = handle_->on(stream);
    std::unordered_map<int64_t, void*> pointers{
        {kFirst, const_cast<void*>(call.first)}, {kSecond, const_cast<void*>(call.second)}, {kResult, result}};
    std::string problem;
    try {
      auto status = algorithm.graph->graph.execute_plan_at_index(handle, pointers, workspace, algorithm.index);
      if (status.is_good()) return;
      problem = status.get_message();
    } catch (const std::runtime_error& error) {
      problem = error.what();
    }
    throw Error(Cause::device_error, fmt::format("GPU {}: cuDNN's convolution failed: {}", context_.index(), problem));
  }

  CudaContext& context_;
  std::unique_ptr<CudnnHandle> handle_;
  std::map<ConvKey, std::unique_ptr<ConvPlan>> plans_;
};

}  // namespace

std::unique_ptr<CudnnConvolutions> CudnnConvolutions::open(CudaContext& context, Availability& why) {
  std::unique_ptr<CudnnHandle> handle = CudnnHandle::open(context.index(), why);
  if (!handle) return nullptr;
  return std::make_unique<LoadedCudnnConvolutions>(context, std::move(handle));
}

}  // namespace amdahl
