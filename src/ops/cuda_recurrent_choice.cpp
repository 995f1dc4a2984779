#include "ops/cuda_recurrent_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <tuple>

#include "device/cuda_check.h"

namespace amdahl {
namespace {

/// Results of a forward and a backward pass.
struct TrialArrays {
  TrialArrays(FloatParts& parts, const RecurrentShape& s)
      : sizes{s.batch * (s.last_step_only ? 1 : s.steps) * s.hidden,
              num_gates(s.cell) * s.hidden * s.input,
              num_gates(s.cell) * s.hidden * s.hidden,
              num_gates(s.cell) * s.hidden,
              num_gates(s.cell) * s.hidden,
              s.batch * s.steps * s.input} {
    for (size_t i = 0; i < sizes.size(); ++i) arrays[i] = parts.take(sizes[i]);
  }
  RecurrentWeights<float> gradients() const { return {arrays[1], arrays[2], arrays[3], arrays[4]}; }
  float* y() const { return arrays[0]; }
  float* dx() const { return arrays[5]; }

  std::array<int64_t, 6> sizes;  // y, gradients of the weights, dx
  std::array<float*, 6> arrays{};
};

/// The first values of each array.
std::vector<std::vector<float>> read_values(const TrialArrays& trial, int device_index) {
  constexpr int64_t kMost = 1 << 20;
  std::vector<std::vector<float>> all;
  for (size_t i = 0; i < trial.arrays.size(); ++i) {
    std::vector<float>& values = all.emplace_back(static_cast<size_t>(std::min(trial.sizes[i], kMost)));
    cuda_check(cudaMemcpy(values.data(), trial.arrays[i], values.size() * sizeof(float), cudaMemcpyDeviceToHost),
               device_index, "cudaMemcpy");
  }
  return all;
}

bool are_close(const std::vector<std::vector<float>>& got, const std::vector<std::vector<float>>& want, double limit) {
  for (size_t i = 0; i < want.size(); ++i) {
    double error = 0, norm = 0;
    for (size_t k = 0; k < want[i].size(); ++k) {
      const double difference = static_cast<double>(got[i][k]) - static_cast<double>(want[i][k]);
      error += difference * difference;
      norm += static_cast<double>(want[i][k]) * static_cast<double>(want[i][k]);
    }
    if (!(std::sqrt(error) <= limit * std::sqrt(norm))) return false;  // also where something is not finite
  }
  return true;
}

struct CudnnScratch {
  CudnnScratch(FloatParts& parts, const CudnnRecurrent::Bytes& bytes)
      : kept(parts.take(static_cast<int64_t>(bytes.kept / sizeof(float)))),
        scratch(parts.take(static_cast<int64_t>(bytes.scratch / sizeof(float)))) {}
  float *kept, *scratch;
};

}  // namespace

int RecurrentChoices::chosen(const RecurrentShape& shape) const {
  const auto found = choices_.find(key_of(shape));
  return found == choices_.end() ? kOwn : found->second;
}

bool RecurrentChoices::forward(Stream& stream, const RecurrentForward& a) {
  const bool is_new = choices_.find(key_of(a.shape)) == choices_.end();
  if (is_new && a.saved && !context_->options().deterministic && !is_capturing(stream)) try {
      choices_[key_of(a.shape)] = measure(stream, a);
    } catch (const Error& error) {  // no memory for a second set of results
      if (error.cause() != Cause::out_of_memory) throw;
      cudaGetLastError();
      choices_[key_of(a.shape)] = kOwn;
    }
  const int algorithm = chosen(a.shape);
  if (algorithm == kOwn) return false;
  CudnnRecurrent::Bytes bytes = cudnn_->bytes(a.shape, algorithm).value();
  if (a.saved) {
    void* const kept = kept_for(a.saved, bytes.kept);
    bytes.kept = 0;
    cudnn_->forward(as_cuda(stream), algorithm, a, kept,
                    recurrent_scratch<CudnnScratch>(*context_, this, stream, bytes).scratch);
  } else {
    const auto memory = recurrent_scratch<CudnnScratch>(*context_, this, stream, bytes);
    cudnn_->forward(as_cuda(stream), algorithm, a, memory.kept, memory.scratch);
  }
  return true;
}

bool RecurrentChoices::backward(Stream& stream, const RecurrentBackward& a) {
  const int algorithm = chosen(a.shape);
  if (algorithm == kOwn) return false;
  CudnnRecurrent::Bytes bytes = cudnn_->bytes(a.shape, algorithm).value();
  void* const kept = kept_for(a.saved, bytes.kept);
  bytes.kept = 0;
  cudnn_->backward(as_cuda(stream), algorithm, a, kept,
                   recurrent_scratch<CudnnScratch>(*context_, this, stream, bytes).scratch);
  return true;
}

void* RecurrentChoices::kept_for(const void* saved, size_t bytes) {
  auto& blocks = kept_[saved];
  if (blocks.empty() || blocks.back()->bytes() < bytes) {
    const RelaxedCapture relaxed;  // the first use may be inside a capture
    blocks.push_back(context_->device().allocate(bytes));
  }
  return blocks.back()->data();
}

int RecurrentChoices::measure(Stream& stream, const RecurrentForward& a) {
  const RecurrentShape& s = a.shape;
  const MathMode math = context_->options().math;
  if (s.type != DType::f32 || (math != MathMode::fp32 && math != MathMode::tf32)) return kOwn;
  if (context_->device().spec().whole_sm_count > 0) return kOwn;  // cuDNN's persistent kernels expect a whole GPU
  context_->device().bind_thread();
  if (!opened_) cudnn_ = CudnnRecurrent::open(context_->index(), math);
  opened_ = true;
  if (!cudnn_) return kOwn;
  CudnnRecurrent::Bytes most{0, 0};
  for (int algorithm = 0; algorithm < kCudnnRecurrentAlgorithms; ++algorithm)
    if (const auto bytes = cudnn_->bytes(s, algorithm))
      most = {std::max(most.kept, bytes->kept), std::max(most.scratch, bytes->scratch)};
  if (most.scratch == 0) return kOwn;
  CudaTuner& tuner = context_->tuner();
  tuner.let_finish(as_cuda(stream));
  const int64_t saved_bytes = own_.saved_bytes(s);
  const auto take = [&](FloatParts& parts) {
    const TrialArrays own(parts, s), other(parts, s);
    float* const saved = parts.take((saved_bytes + 3) / 4);
    return std::tuple(own, other, saved, CudnnScratch(parts, most));
  };
  FloatParts counter(nullptr);
  take(counter);
  const TunerMemory memory(tuner, context_->index(), static_cast<size_t>(counter.bytes()));
  FloatParts parts(memory.data());
  const auto [own, other, saved, cudnn] = take(parts);
  // The output is the gradient as well: values of the right size.
  const RecurrentForward forward{s, a.weights, a.x, own.y(), saved};
  const RecurrentBackward backward{s, a.weights, own.gradients(), a.x, own.y(), own.y(), saved, own.dx(), false};
  const std::unique_ptr<Stream> work = adopt_cuda_stream(context_->device(), tuner.stream());
  const auto run_own = [&](cudaStream_t) {
    own_.forward(*work, forward);
    own_.backward(*work, backward);
  };
  run_own(tuner.stream());  // chooses the GEMM algorithms first
  tuner.synchronize();
  double best_us = tuner.time_us(run_own);
  const auto want = read_values(own, context_->index());
  int best = kOwn;
  std::string text =
      fmt::format("{} {}x{}x{}x{}: own kernels {:.1f} us", s.cell == RecurrentCell::lstm ? "lstm" : "gru", s.batch,
                  s.steps, s.input, s.hidden, best_us);
  for (int algorithm = 0; algorithm < kCudnnRecurrentAlgorithms; ++algorithm) {
    if (!cudnn_->bytes(s, algorithm)) continue;
    text += fmt::format(", cuDNN {} ", cudnn_recurrent_name(algorithm));
    const auto run = [&, kept = cudnn.kept, scratch = cudnn.scratch, y = other.y(), gradients = other.gradients(),
                      dx = other.dx(), dy = own.y()](cudaStream_t queue) {
      cudnn_->forward(queue, algorithm, {s, a.weights, a.x, y, nullptr}, kept, scratch);
      cudnn_->backward(queue, algorithm, {s, a.weights, gradients, a.x, y, dy, nullptr, dx, false}, kept, scratch);
    };
    try {
      run(tuner.stream());
      tuner.synchronize();
      const auto got = read_values(other, context_->index());
      run(tuner.stream());
      tuner.synchronize();
      if (!are_close(got, want, math == MathMode::fp32 ? 1e-4 : 2e-2)) {
        text += "gives other results";
      } else if (read_values(other, context_->index()) != got) {
        text += "differs from run to run";
      } else {
        const double us = tuner.time_us(run);
        text += fmt::format("{:.1f} us", us);
        if (us < best_us) best_us = us, best = algorithm;
      }
    } catch (const Error&) {  // one that builds a plan but does not run, or not in a capture
      cudaGetLastError();
      text += "does not run";
    }
  }
  context_->note_choice(text + fmt::format(": {}", best == kOwn ? "own kernels" : cudnn_recurrent_name(best)));
  return best;
}

}  // namespace amdahl
