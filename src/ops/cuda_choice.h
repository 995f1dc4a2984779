// Whether a dense-layer GEMM runs as one fused or as separate kernels: chosen by timing, once per problem.
#pragma once

#include <fmt/format.h>

#include <array>
#include <compare>
#include <cstdint>
#include <string>

namespace amdahl {

enum class Product { forward, backward_input, backward_weight };
enum class Method { fused, separate };

struct ProductKey {
  Product product;
  int64_t batch, in, out;
  bool relu, bias, mask, accumulate;
  auto operator<=>(const ProductKey&) const = default;
};

struct Choice {
  Method method = Method::fused;
  double fused_us = -1, separate_us = -1;
};

inline std::string describe(const ProductKey& key, const Choice& choice) {
  static constexpr std::array<const char*, 3> kNames{"forward", "backward-input", "backward-weight"};
  std::string text = fmt::format("{} {}x{}x{}{}{}: {}", kNames[static_cast<size_t>(key.product)], key.batch, key.in,
                                 key.out, key.bias ? " bias" : "", key.accumulate ? " accumulate" : "",
                                 choice.method == Method::fused ? "fused" : "separate");
  if (choice.fused_us >= 0)
    text += fmt::format(" (fused {:.2f} us, separate {:.2f} us)", choice.fused_us, choice.separate_us);
  return text;
}

}  // namespace amdahl
