// A plain float64 reference of one training step, which every backend and plan must reproduce.
#pragma once

#include <cstdint>
#include <vector>

#include "amdahl/plan.h"
#include "model/parameter_layout.h"
#include "train/trainer_options.h"

namespace amdahl::test {

class ReferenceMlp {
 public:
  ReferenceMlp(const ModelSpec& spec, const Hyper& hyper, uint64_t seed);

  /// Forward (with the dropout mask of `step`), loss, gradients. `features` [rows, in], `targets` as in BatchView.
  double gradients(const std::vector<float>& features, const std::vector<float>& targets, int64_t rows, bool training);
  /// Clips the last gradients, applies the optimizer to them and advances the step.
  void update();

  const std::vector<double>& params() const { return params_; }
  std::vector<double>& mutable_params() { return params_; }
  const std::vector<double>& grads() const { return grads_; }
  double correct() const { return correct_; }

 private:
  double rate() const;  // learning rate of the next step

  ModelSpec spec_;
  Hyper hyper_;
  ParameterLayout layout_;
  uint64_t seed_, step_ = 0;
  std::vector<double> params_, grads_, m_, v_;
  double correct_ = 0;
};

/// ||a - b|| / ||b||; NaN when any element is NaN.
double relative_error(const std::vector<float>& a, const std::vector<double>& b, size_t begin);

}  // namespace amdahl::test
