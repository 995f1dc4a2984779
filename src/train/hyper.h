// Hyper-parameters of training.
#pragma once

#include <string>

namespace amdahl {

struct Hyper {
  std::string optimizer = "adam";  // "adam" or "sgd"
  float learning_rate = 1e-3f;
  float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;  // adam
  float momentum = 0.9f;                                // sgd
};

}  // namespace amdahl
