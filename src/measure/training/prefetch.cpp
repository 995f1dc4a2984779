#include "measure/training/prefetch.h"

#include <algorithm>

namespace amdahl {

Prefetcher::Prefetcher(Device& device, Stream& compute, int64_t feature_floats, int64_t target_floats)
    : device_(device),
      compute_(compute),
      feature_bytes_(static_cast<size_t>(feature_floats) * sizeof(float)),
      target_bytes_(static_cast<size_t>(target_floats) * sizeof(float)) {
  for (Place& place : places_) {
    place.features = device.allocate(std::max(feature_bytes_, sizeof(float)));
    place.targets = device.allocate(std::max(target_bytes_, sizeof(float)));
    place.filled = device.make_event();
    place.read = device.make_event();
  }
  stream_ = device.make_stream("input");
}

StepBatch Prefetcher::place(size_t index) const {
  return {places_[index].features->as<float>(), places_[index].targets->as<float>()};
}

void Prefetcher::fill(size_t index, const float* features, const float* targets) {
  const Place& place = places_[index];
  stream_->wait(*place.read);
  device_.copy_in_pinned(*stream_, place.features->data(), features, feature_bytes_);
  device_.copy_in_pinned(*stream_, place.targets->data(), targets, target_bytes_);
  stream_->record(*place.filled);
}

}  // namespace amdahl
