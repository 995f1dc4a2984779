// Trains the study's medium model on arrays in memory, on two devices, and prints the weights.
//
// With an installed amdahl: g++ -std=c++20 train_on_arrays.cpp -lamdahl
#include <amdahl/amdahl.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

int main() {
  constexpr int64_t kRows = 1024, kWidth = 8;
  std::vector<float> features(kRows * kWidth);
  std::vector<int32_t> classes(kRows);
  for (int64_t row = 0; row < kRows;
       ++row) {  // the class is which half of the circle the row's first two numbers are in
    for (int64_t column = 0; column < kWidth; ++column)
      features[row * kWidth + column] = std::sin(static_cast<float>(row * (column + 3)));
    classes[row] = features[row * kWidth] + features[row * kWidth + 1] > 0;
  }
  amdahl::TrainConfig config;
  config.engine.backend = "cpu";
  config.training.data.features = {features.data(), amdahl::DType::f32, {kRows, kWidth}};
  config.training.data.labels = {classes.data(), amdahl::DType::i32, {kRows}};
  config.devices = 2;
  config.epochs = 10;
  try {
    amdahl::Observer quiet;
    const amdahl::TrainOutcome outcome = amdahl::run_train(config, quiet);
    std::printf("accuracy %.1f %% on rows it has not seen\n", 100 * outcome.epochs.back().validation_accuracy);
    for (const amdahl::NamedArray& weight : outcome.weights)
      std::printf("%s: %zu numbers, the first is %.4f\n", weight.name.c_str(), weight.values.size(), weight.values[0]);
  } catch (const amdahl::Error& error) {
    std::fprintf(stderr, "%s\n", error.line().c_str());
    return exit_code(error.cause());
  }
}
