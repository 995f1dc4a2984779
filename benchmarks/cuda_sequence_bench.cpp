// Device time of the operations of a transformer's step, by graph replay, with the memory bandwidth or arithmetic rate
// that it means.
//
// usage: cuda_sequence_bench [fp32|tf32|bf16] [deterministic] [rows steps width heads vocabulary]; 8 1024 768 12 50304
// unless told
#include "replay_bench.h"

namespace amdahl {
namespace {

struct Sizes {
  int64_t rows = 8, steps = 1024, width = 768, heads = 12, vocabulary = 50304;
  int64_t tokens() const { return rows * steps; }
};

void bench_products(ReplayBench& b, const Sizes& s, DType type) {
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

void bench_attention(ReplayBench& b, const Sizes& s, DType type) {
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

void bench_norms(ReplayBench& b, const Sizes& s, DType type) {
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

void bench_sequence(ReplayBench& b, const Sizes& s, DType type) {
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

void run(const BenchArguments& arguments) {
  const std::vector<int64_t>& numbers = arguments.numbers;
  Sizes s;
  if (numbers.size() == 5) s = {numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
  auto device = std::move(make_cuda_devices({0}).front());
  auto ops = make_cuda_ops(*device, arguments.options);
  const DType type = ops->compute_type();
  fmt::print("{}, {}{}, {} rows of {} steps, width {}, {} heads, vocabulary {}\n", device->spec().name,
             to_string(arguments.options.math), arguments.options.deterministic ? " deterministic" : "", s.rows,
             s.steps, s.width, s.heads, s.vocabulary);
  ReplayBench bench(*device, *ops, 10);
  bench_products(bench, s, type);
  bench_attention(bench, s, type);
  bench_norms(bench, s, type);
  bench_sequence(bench, s, type);
  for (const std::string& line : cuda_ops_choices(*ops)) fmt::print("{}\n", line);
}

}  // namespace
}  // namespace amdahl

int main(int argc, char** argv) {
  using namespace amdahl;
  return run_bench([&] { run({argc, argv, MathMode::bf16}); });
}
