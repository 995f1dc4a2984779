// The float64 reference against central differences of its own loss: what all other gradients are compared with is
// right.
#include <gtest/gtest.h>

#include <cmath>

#include "reference_mlp.h"
#include "small_job.h"

namespace amdahl::test {
namespace {

struct Case {
  LossKind loss;
  double dropout;
};

class FiniteDifferences : public ::testing::TestWithParam<Case> {};

// Every parameter of the model: the difference quotient of the loss, and the gradient. In float64 a step of 1e-6 leaves
// an error of about 1e-9, unless a ReLU changes sides within it, which the seeds used here do not do.
TEST_P(FiniteDifferences, EqualGradients) {
  constexpr int64_t kRows = 5;
  constexpr double kStep = 1e-6;
  const ModelSpec model = odd_model(GetParam().loss, GetParam().dropout);
  const JobData data = random_data(model, kRows, 21);
  const bool training = GetParam().dropout > 0;
  ReferenceMlp reference(model, Hyper{}, 9);
  reference.gradients(data.features, data.targets, kRows, training);
  reference.update();  // from here on biases are not zero, and the masks are those of step 1

  reference.gradients(data.features, data.targets, kRows, training);
  const std::vector<double> gradients = reference.grads();
  double difference = 0, norm = 0, largest = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    double& parameter = reference.mutable_params()[i];
    const double kept = parameter;
    parameter = kept + kStep;
    const double above = reference.gradients(data.features, data.targets, kRows, training);
    parameter = kept - kStep;
    const double below = reference.gradients(data.features, data.targets, kRows, training);
    parameter = kept;
    const double quotient = (above - below) / (2 * kStep);
    difference += (quotient - gradients[i]) * (quotient - gradients[i]);
    norm += quotient * quotient;
    largest = std::max(largest, std::abs(quotient - gradients[i]));
  }
  EXPECT_GT(norm, 1e-4);
  EXPECT_LT(std::sqrt(difference / norm), 1e-7);
  EXPECT_LT(largest, 1e-7);
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return std::string(info.param.loss == LossKind::mse ? "mse" : "xent") + (info.param.dropout > 0 ? "_dropout" : "");
}

INSTANTIATE_TEST_SUITE_P(Reference, FiniteDifferences,
                         ::testing::Values(Case{LossKind::mse, 0.0}, Case{LossKind::mse, 0.25},
                                           Case{LossKind::softmax_cross_entropy, 0.0},
                                           Case{LossKind::softmax_cross_entropy, 0.25}),
                         name_of);

}  // namespace
}  // namespace amdahl::test
