#include "ops/cuda_cudnn_recurrent.h"

#include <cudnn.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "device/cuda_check.h"
#include "ops/cuda_cudnn_handle.h"

namespace cudnn_frontend {
extern void* cudnn_dlhandle;  // set by CudnnHandle::open
}

namespace amdahl {
namespace {

constexpr std::array<cudnnRNNAlgo_t, kCudnnRecurrentAlgorithms> kAlgorithms{
    CUDNN_RNN_ALGO_STANDARD, CUDNN_RNN_ALGO_PERSIST_STATIC, CUDNN_RNN_ALGO_PERSIST_DYNAMIC};

/// cuDNN's functions for recurrent layers.
struct RnnFunctions {
  decltype(&cudnnCreateRNNDescriptor) create_rnn = nullptr;
  decltype(&cudnnDestroyRNNDescriptor) destroy_rnn = nullptr;
  decltype(&cudnnSetRNNDescriptor_v8) set_rnn = nullptr;
  decltype(&cudnnBuildRNNDynamic) build_dynamic = nullptr;
  decltype(&cudnnCreateRNNDataDescriptor) create_data = nullptr;
  decltype(&cudnnDestroyRNNDataDescriptor) destroy_data = nullptr;
  decltype(&cudnnSetRNNDataDescriptor) set_data = nullptr;
  decltype(&cudnnCreateTensorDescriptor) create_tensor = nullptr;
  decltype(&cudnnDestroyTensorDescriptor) destroy_tensor = nullptr;
  decltype(&cudnnSetTensorNdDescriptor) set_tensor = nullptr;
  decltype(&cudnnGetRNNTempSpaceSizes) temp_sizes = nullptr;
  decltype(&cudnnGetRNNWeightSpaceSize) weight_size = nullptr;
  decltype(&cudnnGetRNNWeightParams) weight_places = nullptr;
  decltype(&cudnnRNNForward) forward = nullptr;
  decltype(&cudnnRNNBackwardData_v8) backward_data = nullptr;
  decltype(&cudnnRNNBackwardWeights_v8) backward_weights = nullptr;
  bool complete = true;

  RnnFunctions() {
    find(create_rnn, "cudnnCreateRNNDescriptor");
    find(destroy_rnn, "cudnnDestroyRNNDescriptor");
    find(set_rnn, "cudnnSetRNNDescriptor_v8");
    find(build_dynamic, "cudnnBuildRNNDynamic");
    find(create_data, "cudnnCreateRNNDataDescriptor");
    find(destroy_data, "cudnnDestroyRNNDataDescriptor");
    find(set_data, "cudnnSetRNNDataDescriptor");
    find(create_tensor, "cudnnCreateTensorDescriptor");
    find(destroy_tensor, "cudnnDestroyTensorDescriptor");
    find(set_tensor, "cudnnSetTensorNdDescriptor");
    find(temp_sizes, "cudnnGetRNNTempSpaceSizes");
    find(weight_size, "cudnnGetRNNWeightSpaceSize");
    find(weight_places, "cudnnGetRNNWeightParams");
    find(forward, "cudnnRNNForward");
    find(backward_data, "cudnnRNNBackwardData_v8");
    find(backward_weights, "cudnnRNNBackwardWeights_v8");
  }

 private:
  template <class Function>
  void find(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(cudnn_frontend::cudnn_dlhandle, name));
    complete = complete && function;
  }
};

size_t padded(size_t bytes) { return (bytes + 255) / 256 * 256; }
size_t float_bytes(int64_t floats) { return static_cast<size_t>(floats) * sizeof(float); }

/// Part of a tensor of parameters that is contiguous in cuDNN's memory of weights as well.
struct WeightRun {
  int tensor;  // w_input, w_hidden, b_input, b_hidden
  size_t from, to, bytes;
};

template <class Float>
std::array<Float*, 4> tensors_of(const RecurrentWeights<Float>& w) {
  return {w.w_input, w.w_hidden, w.b_input, w.b_hidden};
}

char* bytes_of(const std::array<float*, 4>& tensors, int tensor) {
  return reinterpret_cast<char*>(tensors[static_cast<size_t>(tensor)]);
}
const char* bytes_of(const std::array<const float*, 4>& tensors, int tensor) {
  return reinterpret_cast<const char*>(tensors[static_cast<size_t>(tensor)]);
}

/// Descriptors and sizes of a shape with one algorithm.
struct RnnPlan {
  explicit RnnPlan(const RnnFunctions& all) : functions(all) {}
  ~RnnPlan() {
    if (rnn) functions.destroy_rnn(rnn);
    for (cudnnRNNDataDescriptor_t data : {x, y})
      if (data) functions.destroy_data(data);
    for (cudnnTensorDescriptor_t tensor : {states, matrix, bias})
      if (tensor) functions.destroy_tensor(tensor);
  }
  RnnPlan(const RnnPlan&) = delete;
  RnnPlan& operator=(const RnnPlan&) = delete;

  const RnnFunctions& functions;
  cudnnRNNDescriptor_t rnn = nullptr;
  cudnnRNNDataDescriptor_t x = nullptr, y = nullptr;
  cudnnTensorDescriptor_t states = nullptr, matrix = nullptr, bias = nullptr;
  size_t weights = 0, work = 0, reserve = 0, y_bytes = 0, x_bytes = 0;
  std::vector<WeightRun> runs;  // found with the first call
};

/// Parts of the two memories of a call.
struct RnnMemory {
  RnnMemory(const RnnPlan& plan, bool last_step_only, void* kept, void* scratch)
      : reserve(static_cast<char*>(kept)),
        all_y(reserve + padded(plan.reserve)),
        weights(static_cast<char*>(scratch)),
        gradients(weights + padded(plan.weights)),
        work(gradients + padded(plan.weights)),
        used(work + padded(plan.work)),
        dx(used + padded(plan.reserve)),
        dy(dx + padded(plan.x_bytes)),
        kept_bytes(padded(plan.reserve) + (last_step_only ? padded(plan.y_bytes) : 0)),
        scratch_bytes(2 * padded(plan.weights) + padded(plan.work) + padded(plan.reserve) + padded(plan.x_bytes) +
                      (last_step_only ? padded(plan.y_bytes) : 0)) {}
  char *reserve, *all_y;                              // kept
  char *weights, *gradients, *work, *used, *dx, *dy;  // scratch; `used`: the reserve, which cuDNN's backward overwrites
  size_t kept_bytes, scratch_bytes;
};

class LoadedCudnnRecurrent final : public CudnnRecurrent {
 public:
  LoadedCudnnRecurrent(int device_index, MathMode math, std::unique_ptr<CudnnHandle> handle)
      : device_index_(device_index), math_(math), handle_(std::move(handle)) {}
  bool complete() const { return functions_.complete; }

  std::optional<Bytes> bytes(const RecurrentShape& shape, int algorithm) override {
    const RnnPlan* plan = plan_of(shape, algorithm);
    if (!plan) return std::nullopt;
    const RnnMemory memory(*plan, shape.last_step_only, nullptr, nullptr);
    return Bytes{memory.kept_bytes, memory.scratch_bytes};
  }

  void forward(cudaStream_t stream, int algorithm, const RecurrentForward& a, void* kept, void* scratch) override {
    RnnPlan& plan = *plan_of(a.shape, algorithm);
    const RnnMemory memory(plan, a.shape.last_step_only, kept, scratch);
    cudnnHandle_t handle = handle_->on(stream);
    load_weights(stream, handle, plan, a.shape, a.weights, memory.weights);
    const bool last = a.shape.last_step_only;
    check(functions_.forward(handle, plan.rnn, CUDNN_FWD_MODE_TRAINING, nullptr, plan.x, a.x, plan.y,
                             last ? memory.all_y : static_cast<void*>(a.y), plan.states, nullptr, last ? a.y : nullptr,
                             plan.states, nullptr, nullptr, plan.weights, memory.weights, plan.work, memory.work,
                             plan.reserve, memory.reserve),
          "cudnnRNNForward");
  }

  void backward(cudaStream_t stream, int algorithm, const RecurrentBackward& a, void* kept, void* scratch) override {
    RnnPlan& plan = *plan_of(a.shape, algorithm);
    const RnnMemory memory(plan, a.shape.last_step_only, kept, scratch);
    cudnnHandle_t handle = handle_->on(stream);
    load_weights(stream, handle, plan, a.shape, a.weights, memory.weights);
    const bool last = a.shape.last_step_only;
    const void* y = last ? static_cast<const void*>(memory.all_y) : a.y;
    const void* dy = last ? static_cast<const void*>(memory.dy) : a.dy;
    copy(stream, memory.used, memory.reserve, plan.reserve);  // a second backward pass finds it unchanged
    if (last) cuda_check(cudaMemsetAsync(memory.dy, 0, plan.y_bytes, stream), device_index_, "cudaMemsetAsync");
    check(functions_.backward_data(handle, plan.rnn, nullptr, plan.y, y, dy, plan.x,
                                   a.dx ? static_cast<void*>(a.dx) : memory.dx, plan.states, nullptr,
                                   last ? a.dy : nullptr, nullptr, plan.states, nullptr, nullptr, nullptr, plan.weights,
                                   memory.weights, plan.work, memory.work, plan.reserve, memory.used),
          "cudnnRNNBackwardData_v8");
    cuda_check(cudaMemsetAsync(memory.gradients, 0, plan.weights, stream), device_index_, "cudaMemsetAsync");
    const std::array<float*, 4> gradients = tensors_of(a.gradients);
    if (a.accumulate)
      for (const WeightRun& run : plan.runs)
        copy(stream, memory.gradients + run.to, bytes_of(gradients, run.tensor) + run.from, run.bytes);
    check(functions_.backward_weights(handle, plan.rnn, CUDNN_WGRAD_MODE_ADD, nullptr, plan.x, a.x, plan.states,
                                      nullptr, plan.y, y, plan.weights, memory.gradients, plan.work, memory.work,
                                      plan.reserve, memory.used),
          "cudnnRNNBackwardWeights_v8");
    for (const WeightRun& run : plan.runs)
      copy(stream, bytes_of(gradients, run.tensor) + run.from, memory.gradients + run.to, run.bytes);
  }

 private:
  using PlanKey = std::tuple<int, RecurrentCell, int64_t, int64_t, int64_t, int64_t>;

  void copy(cudaStream_t stream, void* to, const void* from, size_t bytes) const {
    cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), device_index_, "cudaMemcpyAsync");
  }
  void check(cudnnStatus_t status, const char* call) const {
    if (status != CUDNN_STATUS_SUCCESS)
      throw Error(Cause::device_error,
                  fmt::format("GPU {}: {} failed (status {})", device_index_, call, static_cast<int>(status)));
  }

  /// Null where cuDNN refuses the shape.
  RnnPlan* plan_of(const RecurrentShape& s, int algorithm) {
    const PlanKey key{algorithm, s.cell, s.batch, s.steps, s.input, s.hidden};
    auto found = plans_.find(key);
    if (found == plans_.end()) {
      std::unique_ptr<RnnPlan> plan;
      if (s.type == DType::f32 && (math_ == MathMode::fp32 || math_ == MathMode::tf32)) plan = make_plan(s, algorithm);
      found = plans_.emplace(key, std::move(plan)).first;
    }
    return found->second.get();
  }

  std::unique_ptr<RnnPlan> make_plan(const RecurrentShape& s, int algorithm) {
    auto plan = std::make_unique<RnnPlan>(functions_);
    const auto fails = [](cudnnStatus_t status) { return status != CUDNN_STATUS_SUCCESS; };
    const cudnnRNNAlgo_t algo = kAlgorithms[static_cast<size_t>(algorithm)];
    const auto batch = static_cast<int>(s.batch), steps = static_cast<int>(s.steps),
               hidden = static_cast<int>(s.hidden), input = static_cast<int>(s.input);
    cudnnHandle_t handle = handle_->get();
    if (fails(functions_.create_rnn(&plan->rnn)) || fails(functions_.create_data(&plan->x)) ||
        fails(functions_.create_data(&plan->y)) || fails(functions_.create_tensor(&plan->states)) ||
        fails(functions_.create_tensor(&plan->matrix)) || fails(functions_.create_tensor(&plan->bias)))
      return nullptr;
    // Arrays of rows of equal length [batch, steps] count as padded.
    if (fails(functions_.set_rnn(plan->rnn, algo, s.cell == RecurrentCell::lstm ? CUDNN_LSTM : CUDNN_GRU,
                                 CUDNN_RNN_DOUBLE_BIAS, CUDNN_UNIDIRECTIONAL, CUDNN_LINEAR_INPUT, CUDNN_DATA_FLOAT,
                                 CUDNN_DATA_FLOAT, math_ == MathMode::fp32 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH, input,
                                 hidden, hidden, 1, nullptr, CUDNN_RNN_PADDED_IO_ENABLED)))
      return nullptr;
    const std::vector<int> lengths(static_cast<size_t>(batch), steps);
    float padding = 0.0f;
    const auto describe = [&](cudnnRNNDataDescriptor_t data, int width) {
      return functions_.set_data(data, CUDNN_DATA_FLOAT, CUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED, steps, batch,
                                 width, lengths.data(), &padding);
    };
    const std::array<int, 3> dimensions{1, batch, hidden}, strides{batch * hidden, hidden, 1};
    if (fails(describe(plan->x, input)) || fails(describe(plan->y, hidden)) ||
        fails(functions_.set_tensor(plan->states, CUDNN_DATA_FLOAT, 3, dimensions.data(), strides.data())))
      return nullptr;
    if (algo == CUDNN_RNN_ALGO_PERSIST_DYNAMIC && fails(functions_.build_dynamic(handle, plan->rnn, batch)))
      return nullptr;
    if (fails(
            functions_.temp_sizes(handle, plan->rnn, CUDNN_FWD_MODE_TRAINING, plan->x, &plan->work, &plan->reserve)) ||
        fails(functions_.weight_size(handle, plan->rnn, &plan->weights)))
      return nullptr;
    plan->x_bytes = float_bytes(s.batch * s.steps * s.input);
    plan->y_bytes = float_bytes(s.batch * s.steps * s.hidden);
    return plan;
  }

  /// Gates are i, f, g, o and r, z, n in cuDNN as well; the matrices of x come before those of h.
  void find_runs(cudnnHandle_t handle, RnnPlan& plan, const RecurrentShape& s, char* weights) const {
    const auto gates = static_cast<int>(num_gates(s.cell));
    const auto add = [&](int tensor, size_t from, const void* place, size_t bytes) {
      const auto to = static_cast<size_t>(static_cast<const char*>(place) - weights);
      if (!place || to + bytes > plan.weights)
        throw Error(Cause::device_error, fmt::format("GPU {}: cuDNN has no weights of a gate", device_index_));
      for (WeightRun& run : plan.runs)
        if (run.tensor == tensor && run.from + run.bytes == from && run.to + run.bytes == to) {
          run.bytes += bytes;
          return;
        }
      plan.runs.push_back({tensor, from, to, bytes});
    };
    for (int number = 0; number < 2 * gates; ++number) {
      const bool of_states = number >= gates;
      const size_t gate = static_cast<size_t>(number % gates);
      const size_t matrix_bytes = float_bytes(s.hidden * (of_states ? s.hidden : s.input)),
                   bias_bytes = float_bytes(s.hidden);
      void *matrix = nullptr, *bias = nullptr;
      check(functions_.weight_places(handle, plan.rnn, 0, plan.weights, weights, number, plan.matrix, &matrix,
                                     plan.bias, &bias),
            "cudnnGetRNNWeightParams");
      add(of_states ? 1 : 0, gate * matrix_bytes, matrix, matrix_bytes);
      add(of_states ? 3 : 2, gate * bias_bytes, bias, bias_bytes);
    }
  }

  void load_weights(cudaStream_t stream, cudnnHandle_t handle, RnnPlan& plan, const RecurrentShape& s,
                    const RecurrentWeights<const float>& weights, char* place) const {
    if (plan.runs.empty()) find_runs(handle, plan, s, place);
    const std::array<const float*, 4> tensors = tensors_of(weights);
    for (const WeightRun& run : plan.runs)
      copy(stream, place + run.to, bytes_of(tensors, run.tensor) + run.from, run.bytes);
  }

  const int device_index_;
  const MathMode math_;
  const std::unique_ptr<CudnnHandle> handle_;
  const RnnFunctions functions_;
  std::map<PlanKey, std::unique_ptr<RnnPlan>> plans_;
};

}  // namespace

const char* cudnn_recurrent_name(int algorithm) {
  static constexpr std::array<const char*, kCudnnRecurrentAlgorithms> kNames{"standard", "persist static",
                                                                             "persist dynamic"};
  return kNames[static_cast<size_t>(algorithm)];
}

std::unique_ptr<CudnnRecurrent> CudnnRecurrent::open(int device_index, MathMode math) {
  Availability why;
  std::unique_ptr<CudnnHandle> handle = CudnnHandle::open(device_index, why);
  if (!handle) return nullptr;
  auto loaded = std::make_unique<LoadedCudnnRecurrent>(device_index, math, std::move(handle));
  if (!loaded->complete()) return nullptr;
  return loaded;
}

}  // namespace amdahl
