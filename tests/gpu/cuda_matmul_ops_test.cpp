// Products of typed matrices, their epilogues, conversions and column sums against float64 references, for every type,
// with rows that are far apart and with pointers that miss the alignment of vector accesses.
#include <algorithm>

#include "typed_support.h"

namespace amdahl {
namespace {

namespace reference = test::reference;

struct MatMulShape {
  int64_t m, n, k;
  int64_t pad = 0;   // elements between the end of a stored row and the next
  int64_t skip = 0;  // elements by which every matrix misses the allocation's alignment
};

/// The operands of one product on the device.
struct Operands {
  std::vector<float> a, b;
  TypedArray on_a, on_b;
  MatMul call{};
};

class CudaMatMulOpsTest : public TypedOpsTest {
 protected:
  static std::vector<MatMulShape> shapes() {
    return {{1, 8, 8}, {64, 64, 64},     {100, 72, 136},     {257, 768, 192},
            {7, 5, 9}, {33, 130, 70, 6}, {65, 96, 40, 8, 1}, {512, 264, 1024}};
  }
  /// Inputs are exact, so the error is that of f32 sums and rounded operands, and of rounding the result, once per
  /// rounding that the operation may take.
  double sum_limit() const {
    return type() == DType::f32 && GetParam().math != MathMode::fp32 ? 1.5e-3 : 1e-5;  // 11 bits of tf32
  }
  double limit(DType result, int roundings = 1) const { return sum_limit() + roundings * unit_of(result); }
  /// Separate kernels round the product, too. f32 gelu uses an exponential with an error of some units in the last
  /// place.
  double gelu_limit(DType result) const { return limit(result) + unit_of(type()) + 1e-6; }
  std::vector<DType> result_types() const {
    return type() == DType::f32 ? std::vector<DType>{DType::f32} : std::vector<DType>{type(), DType::f32};
  }

  /// [rows, width] stored with `pad` NaN elements after each row.
  static std::vector<float> spread(const std::vector<float>& dense, int64_t width, int64_t pad) {
    std::vector<float> stored;
    for (size_t i = 0; i < dense.size(); ++i) {
      stored.push_back(dense[i]);
      if ((static_cast<int64_t>(i) + 1) % width == 0)
        stored.insert(stored.end(), static_cast<size_t>(pad), std::numeric_limits<float>::quiet_NaN());
    }
    return stored;
  }
  static std::vector<float> gathered(const std::vector<float>& stored, int64_t width, int64_t pad) {
    std::vector<float> dense;
    for (size_t i = 0; i < stored.size(); ++i) {
      const bool inside = static_cast<int64_t>(i) % (width + pad) < width;
      if (inside) dense.push_back(stored[i]);
      EXPECT_TRUE(inside || std::isnan(stored[i])) << "an element between the rows was written";
    }
    return dense;
  }

  Operands operands(const MatMulShape& s, bool transpose_a, bool transpose_b, DType c_type) {
    const std::vector<float> a = typed_floats(s.m * s.k, 1, type()), b = typed_floats(s.k * s.n, 2, type());
    const int64_t a_width = transpose_a ? s.m : s.k, b_width = transpose_b ? s.k : s.n;
    Operands o{a, b, typed(spread(a, a_width, s.pad), s.skip), typed(spread(b, b_width, s.pad), s.skip)};
    o.call.a = o.on_a.data(), o.call.b = o.on_b.data();
    o.call.m = s.m, o.call.n = s.n, o.call.k = s.k;
    o.call.transpose_a = transpose_a, o.call.transpose_b = transpose_b;
    o.call.type = type(), o.call.c_type = c_type;
    if (s.pad) o.call.stride_a = a_width + s.pad, o.call.stride_b = b_width + s.pad, o.call.stride_c = s.n + s.pad;
    return o;
  }
  static Values product(const Operands& o) {
    return reference::matmul(to_doubles(o.a), to_doubles(o.b), o.call.m, o.call.n, o.call.k, o.call.transpose_a,
                             o.call.transpose_b);
  }
  /// c before the call: poisoned, or values to be added to.
  std::vector<float> before(const Operands& o, int64_t pad, bool accumulate) const {
    std::vector<float> c = typed_floats(o.call.m * o.call.n, 3, o.call.c_type);
    if (!accumulate) std::fill(c.begin(), c.end(), std::numeric_limits<float>::quiet_NaN());
    return spread(c, o.call.n, pad);
  }
};

std::string named(const MatMulShape& s, const MatMul& call) {
  return std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) + " pad " + std::to_string(s.pad) +
         (call.transpose_a ? " a^T" : "") + (call.transpose_b ? " b^T" : "") + " to " +
         std::string(to_string(call.c_type)) + (call.accumulate ? " accumulate" : "") +
         (call.accumulate_dbias ? " accumulate dbias" : "");
}

TEST_P(CudaMatMulOpsTest, Product) {
  for (const MatMulShape& s : shapes())
    for (const DType c_type : result_types())
      for (const int which : {0, 1, 2, 3, 5}) {  // bits: transpose_a, transpose_b, accumulate
        Operands o = operands(s, (which & 1) != 0, (which & 2) != 0, c_type);
        o.call.accumulate = which == 5;
        const std::vector<float> old = before(o, s.pad, o.call.accumulate);
        TypedArray c = typed(c_type, old, s.skip);
        o.call.c = c.data();
        ops->matmul().matmul(*stream, o.call);
        Values want = product(o);
        if (o.call.accumulate) want = reference::sum_of(want, to_doubles(gathered(old, s.n, s.pad)));
        EXPECT_LT(relative_error(gathered(c.get(), s.n, s.pad), want), limit(c_type, o.call.accumulate ? 2 : 1))
            << named(s, o.call);
      }
}

TEST_P(CudaMatMulOpsTest, Bias) {
  for (const MatMulShape& s : shapes())
    for (const DType c_type : result_types()) {
      Operands o = operands(s, false, true, c_type);
      const std::vector<float> biases = typed_floats(s.n, 4, type(), -8.0f, 8.0f);
      TypedArray bias = typed(biases, s.skip), c = typed(c_type, before(o, s.pad, false), s.skip);
      o.call.c = c.data(), o.call.bias = bias.data(), o.call.epilogue = MatMulEpilogue::bias;
      ops->matmul().matmul(*stream, o.call);
      const Values want = reference::add_bias(product(o), to_doubles(biases));
      EXPECT_LT(relative_error(gathered(c.get(), s.n, s.pad), want), limit(c_type, 2)) << named(s, o.call);
    }
}

TEST_P(CudaMatMulOpsTest, BiasAndGelu) {
  for (const MatMulShape& s : shapes())
    for (const DType c_type : result_types()) {
      Operands o = operands(s, false, true, c_type);
      const std::vector<float> biases = typed_floats(s.n, 4, type(), -2.0f, 2.0f);
      TypedArray bias = typed(biases, s.skip), c = typed(c_type, before(o, s.pad, false), s.skip),
                 aux = typed(type(), s.m * s.n, s.skip);
      o.call.c = c.data(), o.call.aux = aux.data(), o.call.bias = bias.data();
      o.call.epilogue = MatMulEpilogue::bias_gelu;
      ops->matmul().matmul(*stream, o.call);
      const Values want_aux = reference::add_bias(product(o), to_doubles(biases));
      EXPECT_LT(relative_error(aux.get(), want_aux), limit(type(), 2)) << named(s, o.call);
      EXPECT_LT(relative_error(gathered(c.get(), s.n, s.pad), reference::gelu(want_aux)), gelu_limit(c_type))
          << named(s, o.call);
    }
}

TEST_P(CudaMatMulOpsTest, GeluGradientWithColumnSums) {
  for (const MatMulShape& s : shapes())
    for (const DType c_type : result_types())
      for (const int sums : {0, 1, 2}) {  // none, set, added to
        Operands o = operands(s, false, false, c_type);
        const std::vector<float> inputs = typed_floats(s.m * s.n, 5, type(), -4.0f, 4.0f), old = random_floats(s.n, 6);
        TypedArray aux = typed(inputs, s.skip), c = typed(c_type, before(o, s.pad, false), s.skip);
        auto dbias = floats(old);
        o.call.c = c.data(), o.call.aux = aux.data(), o.call.epilogue = MatMulEpilogue::gelu_gradient;
        if (sums) o.call.dbias = dbias.data();
        o.call.accumulate_dbias = sums == 2;
        ops->matmul().matmul(*stream, o.call);
        const Values want = reference::gelu_gradient(product(o), to_doubles(inputs));
        EXPECT_LT(relative_error(gathered(c.get(), s.n, s.pad), want), gelu_limit(c_type)) << named(s, o.call);
        EXPECT_EQ(aux.get(), inputs) << "the input of gelu was written";
        if (!sums) continue;
        Values want_sums = reference::column_sums(want, s.n);
        if (sums == 2) want_sums = reference::sum_of(want_sums, to_doubles(old));
        EXPECT_LT(relative_error(dbias.get(), want_sums), 2 * gelu_limit(c_type)) << named(s, o.call);
      }
}

TEST_P(CudaMatMulOpsTest, SumsOverTheRowsOfA) {
  for (const MatMulShape& s : shapes())
    for (const DType c_type : result_types())
      for (const bool accumulate : {false, true}) {
        Operands o = operands(s, true, false, c_type);
        o.call.accumulate = o.call.accumulate_dbias = accumulate;
        const std::vector<float> old = before(o, s.pad, accumulate), old_sums = random_floats(s.m, 6);
        TypedArray c = typed(c_type, old, s.skip);
        auto dbias = floats(old_sums);
        o.call.c = c.data(), o.call.dbias = dbias.data(), o.call.epilogue = MatMulEpilogue::sum_rows_of_a;
        ops->matmul().matmul(*stream, o.call);
        Values want = product(o), want_sums = reference::column_sums(to_doubles(o.a), s.m);
        if (accumulate) {
          want = reference::sum_of(want, to_doubles(gathered(old, s.n, s.pad)));
          want_sums = reference::sum_of(want_sums, to_doubles(old_sums));
        }
        EXPECT_LT(relative_error(gathered(c.get(), s.n, s.pad), want), limit(c_type, o.call.accumulate ? 2 : 1))
            << named(s, o.call);
        EXPECT_LT(relative_error(dbias.get(), want_sums), sum_limit()) << named(s, o.call);
      }
}

TEST_P(CudaMatMulOpsTest, RerunsAndGraphsAreBitEqual) {
  const MatMulShape s{192, 264, 512};
  Operands forward = operands(s, false, true, type()), backward = operands(s, true, false, DType::f32);
  TypedArray bias = typed(typed_floats(s.n, 4, type())), c = typed(s.m * s.n), aux = typed(s.m * s.n),
             d_aux = typed(s.m * s.n);
  auto dw = floats(s.m * s.n), sums = floats(s.n), dbias = floats(s.m);
  MatMul gelu = forward.call, gradient = forward.call, weight = backward.call;
  gelu.c = c.data(), gelu.aux = aux.data(), gelu.bias = bias.data(), gelu.epilogue = MatMulEpilogue::bias_gelu;
  gradient.c = d_aux.data(), gradient.aux = aux.data(), gradient.dbias = sums.data();
  gradient.epilogue = MatMulEpilogue::gelu_gradient;
  weight.c = dw.data(), weight.dbias = dbias.data(), weight.epilogue = MatMulEpilogue::sum_rows_of_a;
  const auto work = [&] {
    for (const MatMul* each : {&gelu, &gradient, &weight}) ops->matmul().matmul(*stream, *each);
  };
  const auto clear = [&] {
    c.set(std::vector<float>(static_cast<size_t>(s.m * s.n), 7.0f));
    d_aux.set(std::vector<float>(static_cast<size_t>(s.m * s.n), 7.0f));
    dw.set(std::vector<float>(static_cast<size_t>(s.m * s.n), 7.0f));
  };
  expect_equal_reruns(work, clear, [&] {
    std::vector<float> all = c.get();
    for (const std::vector<float>& each : {aux.get(), d_aux.get(), dw.get(), sums.get(), dbias.get()})
      all.insert(all.end(), each.begin(), each.end());
    return all;
  });
}

TEST_P(CudaMatMulOpsTest, ConversionsRoundToNearestEven) {
  for (const int64_t count : {1, 7, 8, 1000, 100'003})
    for (const int64_t skip : {0, 1}) {
      std::vector<float> values = random_floats(count, 1, -100.0f, 100.0f);
      if (count >= 7) {  // ties of bf16, ties of f16, subnormal halves, overflow
        values[0] = 1.00390625f, values[1] = 1.01171875f, values[2] = 1.00048828125f, values[3] = 1.00146484375f;
        values[4] = 3e-6f, values[5] = 1e9f, values[6] = -0.0f;
      }
      auto from = floats(values, skip);
      TypedArray to = typed(type(), count, skip);
      ops->matmul().convert(*stream, from.data(), to.data(), type(), count);
      std::vector<float> want;
      for (const float value : values) want.push_back(rounded(value, type()));
      EXPECT_EQ(to.get(), want) << count << " skip " << skip;
    }
}

TEST_P(CudaMatMulOpsTest, ColumnSums) {
  for (const auto& [rows, width] :
       {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {1000, 8}, {5000, 768}, {77, 50257}, {100'000, 64}, {4096, 3000}})
    for (const bool accumulate : {false, true}) {
      const std::vector<float> values = typed_floats(rows * width, 1, type(), 0.0f, 1.0f),
                               old = random_floats(width, 2);
      TypedArray x = typed(values, rows == 77 ? 1 : 0);
      auto sums = floats(old);
      ops->matmul().column_sums(*stream, x.data(), type(), sums.data(), rows, width, accumulate);
      Values want = reference::column_sums(to_doubles(values), width);
      if (accumulate) want = reference::sum_of(want, to_doubles(old));
      EXPECT_LT(relative_error(sums.get(), want), 2e-6) << rows << "x" << width;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, CudaMatMulOpsTest, ::testing::ValuesIn(type_cases()));

}  // namespace
}  // namespace amdahl
