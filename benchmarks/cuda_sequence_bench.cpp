// Device time of the operations of a transformer's step, by graph replay, with the memory bandwidth or arithmetic rate
// that it means.
//
// usage: cuda_sequence_bench [fp32|tf32|bf16] [deterministic] [rows steps width heads vocabulary]; 8 1024 768 12 50304
// unless told
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/philox.h"
#include "device/device.h"
#include "ops/cuda_ops.h"
#include "ops/ops.h"

namespace amdahl {
namespace {

constexpr int kCopies = 10, kReplays = 20;

struct Sizes {
  int64_t rows = 8, steps = 1024, width = 768, heads = 12, vocabulary = 50304;
  int64_t tokens() const { return rows * steps; }
};

class SequenceBench {
 public:
  SequenceBench(Device& device, Ops& ops) : device_(device), ops_(ops), stream_(device.make_stream("compute")) {}

  /// Random in [-1, 1), converted to `type`: zeros would run faster than real data.
  void* values(int64_t n, DType type = DType::f32) {
    std::vector<float> some(static_cast<size_t>(std::min<int64_t>(n, 1 << 20)));  // repeated, for the host's sake
    for (size_t i = 0; i < some.size(); ++i)
      some[i] = philox_uniform(philox(1, static_cast<uint32_t>(i), static_cast<uint32_t>(buffers_.size()), 0, 0).v[0]) *
                    2.0f -
                1.0f;
    float* floats = static_cast<float*>(bytes(n * 4));
    for (int64_t at = 0; at < n; at += static_cast<int64_t>(some.size()))
      device_.copy_in(*stream_, floats + at, some.data(),
                      static_cast<size_t>(std::min<int64_t>(n - at, static_cast<int64_t>(some.size()))) * 4);
    if (type == DType::f32) return finish(), floats;
    void* typed = bytes(n * static_cast<int64_t>(size_of(type)));
    ops_.matmul().convert(*stream_, floats, typed, type, n);
    return finish(), typed;
  }
  float* floats(int64_t n) { return static_cast<float*>(values(n)); }
  /// Class indices whose frequencies fall like those of words.
  float* tokens(int64_t n, int64_t classes) {
    std::vector<float> some(static_cast<size_t>(n));
    for (size_t i = 0; i < some.size(); ++i) {
      const float u = philox_uniform(philox(2, static_cast<uint32_t>(i), 0, 0, 0).v[0]);
      some[i] = static_cast<float>(
          std::min<int64_t>(classes - 1, static_cast<int64_t>(u * u * u * u * static_cast<float>(classes))));
    }
    float* data = static_cast<float*>(bytes(n * 4));
    device_.copy_in(*stream_, data, some.data(), some.size() * 4);
    return finish(), data;
  }
  void* bytes(int64_t n) {
    buffers_.push_back(device_.allocate(static_cast<size_t>(n)));
    return buffers_.back()->data();
  }
  void clear() {
    finish();
    buffers_.clear();
  }

  /// Prints the median time of one `work`.
  void time(const std::string& name, double flops, double traffic_bytes, const std::function<void()>& work) {
    work();
    const auto graph = device_.capture(*stream_, [&] {
      for (int i = 0; i < kCopies; ++i) work();
    });
    auto start = device_.make_event(), end = device_.make_event();
    std::vector<double> samples;
    for (int i = 0; i < kReplays + 3; ++i) {
      stream_->stamp(*start);
      graph->launch(*stream_);
      stream_->stamp(*end);
      finish();
      if (i >= 3) samples.push_back(device_.elapsed_us(*start, *end) / kCopies);
    }
    std::sort(samples.begin(), samples.end());
    const double us = samples[samples.size() / 2];
    fmt::print("  {:<34} {:9.2f} us {:3} nodes {:8.1f} GB/s {:8.1f} TFLOP/s\n", name, us, graph->num_nodes() / kCopies,
               traffic_bytes / us * 1e-3, flops / us * 1e-6);
  }
  Ops& ops() { return ops_; }
  Stream& stream() { return *stream_; }

 private:
  void finish() { stream_->synchronize(Deadline::after_seconds(120)); }
  Device& device_;
  Ops& ops_;
  std::unique_ptr<Stream> stream_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
};

void bench_products(SequenceBench& b, const Sizes& s, DType type) {
  const int64_t m = s.tokens(), n = 4 * s.width, k = s.width;
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  void *x = b.values(m * k, type), *w = b.values(n * k, type), *bias = b.values(n, type), *y = b.values(m * n, type),
       *aux = b.values(m * n, type), *dx = b.values(m * k, type);
  float *dw = b.floats(n * k), *sums = b.floats(n);
  MatMul forward{.a = x, .b = w, .c = y, .m = m, .n = n, .k = k, .transpose_b = true, .type = type, .c_type = type};
  const auto time = [&](const char* name, const MatMul& call) {
    b.time(name, flops, 0, [&] { b.ops().matmul().matmul(b.stream(), call); });
  };
  time("x w^T", forward);
  forward.bias = bias, forward.epilogue = MatMulEpilogue::bias;
  time("x w^T + bias", forward);
  forward.aux = aux, forward.epilogue = MatMulEpilogue::bias_gelu;
  time("gelu(x w^T + bias)", forward);
  MatMul down{.a = x, .b = w, .c = y, .m = m, .n = n, .k = k, .type = type, .c_type = type, .aux = aux};
  down.epilogue = MatMulEpilogue::gelu_gradient;
  time("dy w gelu'", down);
  down.dbias = sums;
  time("dy w gelu', column sums", down);
  const MatMul input{.a = y, .b = w, .c = dx, .m = m, .n = k, .k = n, .type = type, .c_type = type};
  time("dy w", input);
  MatMul weight{.a = y, .b = x, .c = dw, .m = n, .n = k, .k = m, .transpose_a = true, .type = type};
  time("dy^T x", weight);
  weight.epilogue = MatMulEpilogue::sum_rows_of_a, weight.dbias = sums;
  time("dy^T x, sums of dy", weight);
  const double element = static_cast<double>(size_of(type));
  b.time("column sums", 0, static_cast<double>(m * n) * element,
         [&] { b.ops().matmul().column_sums(b.stream(), y, type, sums, m, n, false); });
  b.clear();
  float* from = b.floats(s.vocabulary * s.width);
  void* to = b.values(s.vocabulary * s.width, type);
  b.time("convert", 0, static_cast<double>(s.vocabulary * s.width) * (4 + element),
         [&] { b.ops().matmul().convert(b.stream(), from, to, type, s.vocabulary * s.width); });
  b.clear();
}

void bench_attention(SequenceBench& b, const Sizes& s, DType type) {
  const int64_t count = s.tokens() * s.width;
  void *qkv = b.values(3 * count, type), *out = b.values(count, type), *d_out = b.values(count, type),
       *d_qkv = b.values(3 * count, type);
  float* log_sums = b.floats(s.tokens() * s.heads);
  for (const bool causal : {false, true}) {
    const AttentionShape shape{s.rows, s.steps, s.heads, s.width / s.heads, causal, type};
    const double flops = 4.0 * static_cast<double>(count) * static_cast<double>(s.steps) * (causal ? 0.5 : 1.0);
    b.time(causal ? "attention, causal" : "attention", flops, 0, [&] {
      b.ops().attention().attention_forward(b.stream(), {shape, qkv, out, log_sums});
    });
    b.time(causal ? "attention gradient, causal" : "attention gradient", 2.5 * flops, 0, [&] {
      b.ops().attention().attention_backward(b.stream(), {shape, qkv, out, log_sums, d_out, d_qkv});
    });
  }
  b.clear();
}

void bench_norms(SequenceBench& b, const Sizes& s, DType type) {
  const int64_t count = s.tokens() * s.width;
  const double element = static_cast<double>(size_of(type)), n = static_cast<double>(count);
  float *x = b.floats(count), *sum = b.floats(count), *d_residual = b.floats(count), *dx = b.floats(count),
        *gamma = b.floats(s.width), *beta = b.floats(s.width), *mean = b.floats(s.tokens()),
        *rstd = b.floats(s.tokens());
  void *delta = b.values(count, type), *y = b.values(count, type), *typed = b.values(count, type);
  const LayerNormForward forward{.x = x,
                                 .delta = delta,
                                 .sum = sum,
                                 .gamma = gamma,
                                 .beta = beta,
                                 .y = y,
                                 .mean = mean,
                                 .rstd = rstd,
                                 .rows = s.tokens(),
                                 .width = s.width,
                                 .type = type,
                                 .y_type = type};
  b.time("layer norm", 0, n * (8 + 2 * element), [&] { b.ops().norm().layer_norm_forward(b.stream(), forward); });
  const LayerNormBackward backward{.dy = y,
                                   .x = sum,
                                   .gamma = gamma,
                                   .mean = mean,
                                   .rstd = rstd,
                                   .d_residual = d_residual,
                                   .dx = dx,
                                   .dx_typed = typed,
                                   .dgamma = b.floats(s.width),
                                   .dbeta = b.floats(s.width),
                                   .rows = s.tokens(),
                                   .width = s.width,
                                   .type = type,
                                   .dy_type = type};
  b.time("layer norm gradient", 0, n * (12 + 2 * element),
         [&] { b.ops().norm().layer_norm_backward(b.stream(), backward); });
  b.time("residual addition", 0, n * (8 + element), [&] {
    b.ops().norm().residual_add(b.stream(), {x, delta, dx, count, type});
  });
  b.clear();
}

void bench_sequence(SequenceBench& b, const Sizes& s, DType type) {
  const int64_t count = s.tokens() * s.width, logits = s.tokens() * s.vocabulary;
  const double element = static_cast<double>(size_of(type)), n = static_cast<double>(count);
  float *tokens = b.tokens(s.tokens(), s.vocabulary), *table = b.floats(s.vocabulary * s.width),
        *positions = b.floats(s.steps * s.width), *out = b.floats(count), *stats = b.floats(2);
  b.time("embedding", 0, n * 8, [&] {
    b.ops().sequence().embedding_forward(
        b.stream(), {tokens, table, positions, nullptr, out, s.rows, s.steps, s.width, s.vocabulary});
  });
  b.time("embedding gradient, table", 0, n * 4, [&] {
    b.ops().sequence().embedding_backward(
        b.stream(), {tokens, out, table, nullptr, nullptr, s.rows, s.steps, s.width, s.vocabulary});
  });
  b.time("positions gradient", 0, n * 4, [&] {
    b.ops().sequence().positions_gradient(b.stream(), {out, positions, s.rows, s.steps, s.width});
  });
  b.time("mean over steps", 0, n * 4, [&] {
    b.ops().sequence().pool_steps(b.stream(), {Pooling::mean, out, positions, s.rows, s.steps, s.width});
  });
  void* z = b.values(logits, type);
  b.time("token loss with gradient", 0, 2 * static_cast<double>(logits) * element, [&] {
    b.ops().sequence().token_loss(b.stream(), {z, tokens, stats, s.tokens(), s.vocabulary, s.vocabulary,
                                               1.0f / static_cast<float>(s.tokens()), type});
  });
  b.clear();
}

int run(const std::vector<std::string>& arguments) {
  OpsOptions options;
  options.math = MathMode::bf16;
  std::vector<int64_t> numbers;
  for (const std::string& argument : arguments) {
    if (argument == "fp32") options.math = MathMode::fp32;
    if (argument == "tf32") options.math = MathMode::tf32;
    if (argument == "deterministic") options.deterministic = true;
    if (std::isdigit(static_cast<unsigned char>(argument.front()))) numbers.push_back(std::stoll(argument));
  }
  Sizes s;
  if (numbers.size() == 5) s = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
  auto device = std::move(make_cuda_devices({0}).front());
  auto ops = make_cuda_ops(*device, options);
  const DType type = ops->compute_type();
  fmt::print("{}, {}{}, {} rows of {} steps, width {}, {} heads, vocabulary {}\n", device->spec().name,
             to_string(options.math), options.deterministic ? " deterministic" : "", s.rows, s.steps, s.width, s.heads,
             s.vocabulary);
  SequenceBench bench(*device, *ops);
  bench_products(bench, s, type);
  bench_attention(bench, s, type);
  bench_norms(bench, s, type);
  bench_sequence(bench, s, type);
  for (const std::string& line : cuda_ops_choices(*ops)) fmt::print("{}\n", line);
  return 0;
}

}  // namespace
}  // namespace amdahl

int main(int argc, char** argv) {
  try {
    return amdahl::run({argv + 1, argv + argc});
  } catch (const amdahl::Error& error) {
    fmt::print(stderr, "{}\n", error.line());
    return amdahl::exit_code(error.cause());
  }
}
