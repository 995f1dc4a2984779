#include "reference_mlp.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"
#include "model/model.h"

namespace amdahl::test {

ReferenceMlp::ReferenceMlp(const ModelSpec& spec, const Hyper& hyper, uint64_t seed)
    : spec_(spec), hyper_(hyper), layout_(make_layout(spec)), seed_(seed) {
  const std::vector<float> initial = initial_parameters(spec, layout_, seed);
  params_.assign(initial.begin(), initial.end());
  grads_.assign(params_.size(), 0.0);
  m_ = v_ = grads_;
}

double ReferenceMlp::gradients(const std::vector<float>& features, const std::vector<float>& targets, int64_t rows,
                               bool training) {
  const size_t num_layers = spec_.layers.size();
  std::vector<std::vector<double>> values(num_layers + 1), factors(num_layers);
  values[0].assign(features.begin(), features.begin() + rows * spec_.input_width);
  for (size_t l = 0; l < num_layers; ++l) {
    const LayerSpec& layer = spec_.layers[l];
    const int64_t in = spec_.layer_input_width(l), out = layer.units;
    values[l + 1].resize(static_cast<size_t>(rows * out));
    factors[l].assign(static_cast<size_t>(rows * out), 1.0);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < out; ++o) {
        double sum = layout_.layers[l].bias >= 0 ? params_[static_cast<size_t>(layout_.layers[l].bias + o)] : 0.0;
        for (int64_t i = 0; i < in; ++i)
          sum += values[l][static_cast<size_t>(r * in + i)] *
                 params_[static_cast<size_t>(layout_.layers[l].weight + o * in + i)];
        double factor = 1.0;
        if (layer.activation == Activation::relu && !(sum > 0)) factor = 0.0;
        if (training && layer.dropout > 0) {
          const Philox4 bits = dropout_draw(seed_, static_cast<uint32_t>(o / 4), static_cast<uint32_t>(r),
                                            static_cast<uint32_t>(step_), static_cast<uint32_t>(l));
          factor *= bits.v[o % 4] < dropout_keep_threshold(layer.dropout) ? 1.0 / (1.0 - layer.dropout) : 0.0;
        }
        values[l + 1][static_cast<size_t>(r * out + o)] = sum * factor;
        factors[l][static_cast<size_t>(r * out + o)] = factor;
      }
    }
  }
  const int64_t out = spec_.output_width();
  const std::vector<double>& output = values.back();
  std::vector<double> gradient(output.size());
  double loss = 0;
  correct_ = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const double* line = output.data() + r * out;
    if (spec_.loss == LossKind::mse) {
      for (int64_t o = 0; o < out; ++o) {
        const double difference = line[o] - static_cast<double>(targets[static_cast<size_t>(r * out + o)]);
        loss += difference * difference / static_cast<double>(rows * out);
        gradient[static_cast<size_t>(r * out + o)] = 2 * difference / static_cast<double>(rows * out);
      }
      continue;
    }
    const auto label = static_cast<int64_t>(targets[static_cast<size_t>(r)]);
    const double largest = *std::max_element(line, line + out);
    correct_ += std::max_element(line, line + out) - line == label;
    double sum = 0;
    for (int64_t o = 0; o < out; ++o) sum += std::exp(line[o] - largest);
    loss += (std::log(sum) + largest - line[label]) / static_cast<double>(rows);
    for (int64_t o = 0; o < out; ++o)
      gradient[static_cast<size_t>(r * out + o)] =
          (std::exp(line[o] - largest) / sum - (o == label ? 1.0 : 0.0)) / static_cast<double>(rows);
  }
  std::fill(grads_.begin(), grads_.end(), 0.0);
  for (size_t l = num_layers; l-- > 0;) {
    const int64_t in = spec_.layer_input_width(l), width = spec_.layers[l].units;
    std::vector<double> below(static_cast<size_t>(rows * in), 0.0);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t o = 0; o < width; ++o) {
        const double g = gradient[static_cast<size_t>(r * width + o)] * factors[l][static_cast<size_t>(r * width + o)];
        if (layout_.layers[l].bias >= 0) grads_[static_cast<size_t>(layout_.layers[l].bias + o)] += g;
        for (int64_t i = 0; i < in; ++i) {
          const size_t w = static_cast<size_t>(layout_.layers[l].weight + o * in + i);
          grads_[w] += g * values[l][static_cast<size_t>(r * in + i)];
          below[static_cast<size_t>(r * in + i)] += g * params_[w];
        }
      }
    }
    gradient = std::move(below);
  }
  return loss;
}

// The schedule's formulas written out again, in double.
double ReferenceMlp::rate() const {
  const RatePlan& plan = hyper_.rate_plan;
  const double full = hyper_.learning_rate, at = static_cast<double>(step_);
  if (step_ < static_cast<uint64_t>(plan.warmup_steps)) return full * (at + 1) / static_cast<double>(plan.warmup_steps);
  const double passed = std::min(
      1.0, (at - static_cast<double>(plan.warmup_steps)) / static_cast<double>(plan.total_steps - plan.warmup_steps));
  if (plan.schedule == RateSchedule::linear) return full * (1 - passed);
  if (plan.schedule == RateSchedule::cosine) return full * (1 + std::cos(std::acos(-1.0) * passed)) / 2;
  return full;
}

void ReferenceMlp::update() {
  const double t = static_cast<double>(step_) + 1, rate_now = rate();
  double squares = 0;
  for (const double g : grads_) squares += g * g;
  if (hyper_.clip_norm > 0 && std::sqrt(squares) > hyper_.clip_norm)
    for (double& g : grads_) g *= hyper_.clip_norm / std::sqrt(squares);
  if (hyper_.optimizer == "adamw")
    for (size_t l = 0; l < spec_.layers.size(); ++l) {
      const int64_t begin = layout_.layers[l].weight, count = spec_.layers[l].units * spec_.layer_input_width(l);
      for (int64_t i = begin; i < begin + count; ++i)
        params_[static_cast<size_t>(i)] *= 1 - rate_now * static_cast<double>(hyper_.weight_decay);
    }
  for (size_t i = 0; i < params_.size(); ++i) {
    if (hyper_.optimizer == "sgd") {
      m_[i] = hyper_.momentum * m_[i] + grads_[i];
      params_[i] -= rate_now * m_[i];
      continue;
    }
    const double beta1 = hyper_.beta1, beta2 = hyper_.beta2;
    m_[i] = beta1 * m_[i] + (1 - beta1) * grads_[i];
    v_[i] = beta2 * v_[i] + (1 - beta2) * grads_[i] * grads_[i];
    const double m_hat = m_[i] / (1 - std::pow(beta1, t)), v_hat = v_[i] / (1 - std::pow(beta2, t));
    params_[i] -= rate_now * m_hat / (std::sqrt(v_hat) + hyper_.epsilon);
  }
  ++step_;
}

double relative_error(const std::vector<float>& a, const std::vector<double>& b, size_t begin) {
  double difference = 0, norm = 0;
  for (size_t i = begin; i < a.size(); ++i) {
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
}

}  // namespace amdahl::test
