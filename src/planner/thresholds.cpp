#include "planner/rank.h"

#include <cmath>
#include <map>
#include <optional>

#include "planner/advise.h"
#include "planner/predict.h"
#include "stats/compare.h"

namespace amdahl {
namespace {

constexpr int kLeastWidth = 16, kMostWidth = 16384;

ModelSpec dense_model_of_width(int64_t width) {
  ModelSpec model;
  model.name = "dense";
  model.input_width = 50;
  LayerSpec layer;
  for (const int64_t units : {width, width, std::max<int64_t>(1, width / 2)}) {
    layer.units = units;
    model.layers.push_back(layer);
  }
  layer.units = 3, layer.activation = Activation::none;
  model.layers.push_back(layer);
  return model;
}

PlanAccount account_on(const ModelSpec& model, const Calibration& calibration, const Rates& rates, int devices,
                       int64_t batch) {
  ParallelPlan plan;
  plan.mesh.dp = devices;
  plan.strategy = devices > 1 ? "ddp" : "single";
  plan.global_batch = batch;
  return account_of(make_workload(model, plan, profile_of(calibration)), rates, PipelineMethod::bound);
}

Estimate speedup_of(const ModelSpec& model, const Calibration& calibration, const Rates& rates, int devices,
                    int64_t batch) {
  return predicted_speedup(account_on(model, calibration, rates, 1, batch),
                           account_on(model, calibration, rates, devices, batch), calibration.interval_factor);
}

}  // namespace

ModelSpec dense_model_of(int64_t num_parameters) {
  int64_t low = 1, high = 1 << 20;  // widths; num_parameters grows with the width
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (dense_model_of_width(middle).num_parameters() < num_parameters)
      low = middle + 1;
    else
      high = middle;
  }
  return dense_model_of_width(low);
}

std::vector<SizeThreshold> find_thresholds(const Calibration& calibration, const std::vector<int>& devices,
                                           const std::vector<int64_t>& batches) {
  const Rates rates = rates_of(calibration);
  const double step = std::pow(2.0, 0.25);
  std::vector<SizeThreshold> all;
  for (const int64_t batch : batches)
    for (const int count : devices) {
      SizeThreshold threshold;
      threshold.global_batch = batch, threshold.devices = count;
      std::map<int64_t, bool> pays;  // by parameters; downwards, to the first size that does not pay
      bool pay = batch % count == 0;
      for (double width = kMostWidth; pay && width >= kLeastWidth; width /= step) {
        const ModelSpec model = dense_model_of_width(static_cast<int64_t>(std::lround(width)));
        pay = recommend(speedup_of(model, calibration, rates, count, batch).ci) == Recommendation::multi_device;
        pays[model.num_parameters()] = pay;
      }
      if (const auto crossover = recommended_from(pays)) threshold.parameters = crossover->from;
      all.push_back(threshold);
    }
  return all;
}

}  // namespace amdahl
