#include "ops/cpu_losses.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace amdahl {

void cpu_cross_entropy_loss(const CrossEntropyLoss& a) {
  const double scale = static_cast<double>(a.scale) * (a.gradient_scale ? static_cast<double>(*a.gradient_scale) : 1.0);
  double loss = 0.0;
  int64_t correct = 0;
  for (int64_t row = 0; row < a.batch; ++row) {
    const float* logits = a.logits + row * a.classes;
    float* gradient = a.d_logits + row * a.classes;
    const auto label = static_cast<int64_t>(a.labels[row]);
    const float* largest = std::max_element(logits, logits + a.classes);  // first on ties
    correct += largest - logits == label;
    double sum = 0.0;
    for (int64_t c = 0; c < a.classes; ++c) {
      gradient[c] = std::exp(logits[c] - *largest);
      sum += static_cast<double>(gradient[c]);
    }
    loss += std::log(sum) + static_cast<double>(*largest) - static_cast<double>(logits[label]);
    const auto factor = static_cast<float>(scale / sum);
    for (int64_t c = 0; c < a.classes; ++c) gradient[c] *= factor;
    // p - 1 is computed from the other classes where p is close to 1, to avoid cancellation.
    double others = 0.0;
    for (int64_t c = 0; c < a.classes; ++c) others += c == label ? 0.0 : static_cast<double>(gradient[c]);
    gradient[label] = static_cast<float>(-others);
  }
  const float scaled = static_cast<float>(loss * static_cast<double>(a.scale));
  a.stats[0] = a.accumulate ? a.stats[0] + scaled : scaled;
  a.stats[1] = (a.accumulate ? a.stats[1] : 0.0f) + static_cast<float>(correct);
}

void cpu_sum_arrays(const SumArrays& a) {
  for (int64_t i = 0; i < a.n; ++i) {
    float sum = a.accumulate ? a.sum[i] + a.arrays[i] : a.arrays[i];
    for (int64_t k = 1; k < a.num_arrays; ++k) sum += a.arrays[k * a.stride + i];
    a.sum[i] = a.factor * sum;
  }
}

void cpu_gather_rows(const float* table, const int32_t* indices, float* out, int64_t rows, int64_t width) {
  for (int64_t row = 0; row < rows; ++row)
    std::memcpy(out + row * width, table + indices[row] * width, static_cast<size_t>(width) * sizeof(float));
}

}  // namespace amdahl
