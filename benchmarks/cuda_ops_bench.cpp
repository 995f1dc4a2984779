// Device time of every op of a training step, by graph replay, for the study's two stated models.
//
// usage: cuda_ops_bench [fp32|tf32|bf16] [deterministic] [batch sizes...]; 64 and 8192 unless told
#include "amdahl/plan.h"
#include "replay_bench.h"

namespace amdahl {
namespace {

double bench_layer(ReplayBench& b, const ModelSpec& model, size_t layer, int64_t batch) {
  const LayerSpec& spec = model.layers[layer];
  const int64_t in = model.layer_input_width(layer), out = spec.units;
  const bool relu = spec.activation == Activation::relu;
  float *x = b.floats(batch * in), *w = b.floats(out * in), *bias = b.floats(out), *y = b.floats(batch * out);
  float *dx = b.floats(batch * in), *dw = b.floats(out * in), *dbias = b.floats(out), *dbias_below = b.floats(in);
  float* dy = b.floats(batch * out);
  const auto* step = static_cast<const uint64_t*>(b.bytes(8));
  const auto mask_for = [&](int64_t width) {
    const int64_t n = b.ops().gemm().mask_bytes(batch, width);
    return n ? static_cast<uint8_t*>(b.bytes(n)) : nullptr;
  };
  uint8_t *mask_y = relu ? mask_for(out) : nullptr, *mask_x = mask_for(in);
  // x becomes the output of a layer with dropout, and its mask that output's.
  float *one = b.floats(batch), *values = b.floats(in);
  b.ops().gemm().dense_forward(b.stream(), {one, values, nullptr, x, batch, 1, in, true, mask_x, {0.5, 1, step, 0, 0}});
  const double flops = 2.0 * static_cast<double>(batch * in * out);
  const double product_bytes = 4.0 * static_cast<double>(batch * in + in * out + batch * out);
  const std::string shape = fmt::format(" {}x{}x{}", batch, in, out);
  DenseForward forward{x, w, spec.bias ? bias : nullptr, y, batch, in, out, relu, mask_y};
  if (spec.dropout > 0) forward.dropout = {spec.dropout, 1, step, 0, 0};
  double us =
      b.time("forward" + shape, flops, product_bytes, [&] { b.ops().gemm().dense_forward(b.stream(), forward); });
  // The sums of the last layer's dy are nobody else's; below it they come with the input gradient.
  const bool own_sums = layer + 1 == model.layers.size() && spec.bias;
  const DenseBackwardWeight weight{x, dy, dw, own_sums ? dbias : nullptr, batch, in, out, false};
  const DenseBackwardInput input{dy, w, x, dx, dbias_below, batch, in, out, 1.25f, false, mask_x};
  us += b.time("backward" + shape, (layer > 0 ? 2 : 1) * flops, (layer > 0 ? 2 : 1) * product_bytes,
               [&] { b.ops().gemm().dense_backward(b.stream(), weight, layer > 0 ? &input : nullptr); });
  if (layer > 0) {
    b.time("  input alone" + shape, flops, product_bytes,
           [&] { b.ops().gemm().dense_backward_input(b.stream(), input); });
    b.time("  weight alone" + shape, flops, product_bytes,
           [&] { b.ops().gemm().dense_backward_weight(b.stream(), weight); });
  }
  b.clear();
  return us;
}

double bench_rest(ReplayBench& b, const ModelSpec& model, int64_t batch) {
  const int64_t n = model.num_parameters(), out = model.output_width(), in = model.input_width;
  float *w = b.floats(n), *g = b.floats(n), *m = b.floats(n), *v = static_cast<float*>(b.bytes(n * 4));
  float *p = b.floats(batch * out), *t = b.floats(batch * out), *d = b.floats(batch * out), *stats = b.floats(2);
  float *table = b.floats(4 * batch * in), *x = b.floats(batch * in);
  std::vector<int32_t> indices(static_cast<size_t>(batch));
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int32_t>(i * 2654435761u % (4 * indices.size()));
  auto* rows = static_cast<int32_t*>(b.bytes(batch * 4));
  b.device().copy_in(b.stream(), rows, indices.data(), indices.size() * 4);
  auto* step = static_cast<uint64_t*>(b.bytes(8));
  const auto bytes = [](int64_t count) { return 4.0 * static_cast<double>(count); };
  double us = b.time("gather", 0, bytes(2 * batch * in),
                     [&] { b.ops().elementwise().gather_rows(b.stream(), table, rows, x, batch, in); });
  us += b.time("mse", 0, bytes(3 * batch * out), [&] {
    b.ops().loss().mse_loss(b.stream(), {p, t, d, stats, batch, out, 1.0f / static_cast<float>(batch * out), false});
  });
  us += b.time("adam", 0, bytes(7 * n), [&] {
    b.ops().optimizer().adam_step(b.stream(), {w, g, m, v, n, step, 1e-3f, 0.9f, 0.999f, 1e-8f});
  });
  us += b.time("increment", 0, 8, [&] { b.ops().elementwise().increment(b.stream(), step); });
  b.clear();
  return us;
}

void run(const BenchArguments& arguments) {
  std::vector<int64_t> batches = arguments.numbers;
  if (batches.empty()) batches = {64, 8192};
  auto device = std::move(make_cuda_devices({0}).front());
  auto ops = make_cuda_ops(*device, arguments.options);
  fmt::print("{}, cuBLASLt {}, {}{}, mask bits {}\n", device->spec().name, cuda_versions()["cublas"],
             to_string(arguments.options.math), arguments.options.deterministic ? " deterministic" : "",
             ops->gemm().mask_bytes(1, 128) ? "used" : "not used");
  ReplayBench bench(*device, *ops, 20);
  for (const char* name : {"medium-258k", "large-6.9m"})
    for (const int64_t batch : batches) {
      const ModelSpec model = find_model_preset(name);
      fmt::print("{} batch {}\n", name, batch);
      double us = 0;
      for (size_t layer = 0; layer < model.layers.size(); ++layer) us += bench_layer(bench, model, layer, batch);
      us += bench_rest(bench, model, batch);
      fmt::print("  sum of a step's ops {:.1f} us\n", us);
    }
  for (const std::string& line : cuda_ops_choices(*ops)) fmt::print("{}\n", line);
}

}  // namespace
}  // namespace amdahl

int main(int argc, char** argv) {
  using namespace amdahl;
  return run_bench([&] { run({argc, argv, MathMode::tf32}); });
}
