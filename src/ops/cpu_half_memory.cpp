#include "ops/cpu_half_memory.h"

#include "base/small_floats.h"
#include "device/cpu_device.h"

namespace amdahl {

float* HalfMemory::room(Stream& stream, size_t slot, int64_t count) {
  std::vector<std::unique_ptr<Buffer>>& slots = slots_[&stream];
  if (slots.size() <= slot) slots.resize(slot + 1);
  const size_t bytes = static_cast<size_t>(count) * sizeof(float);
  if (!slots[slot] || slots[slot]->bytes() < bytes) {
    slots[slot].reset();  // waits for the work that uses it
    slots[slot] = device_.allocate(bytes);
  }
  return slots[slot]->as<float>();
}

float* HalfMemory::widened(Stream& stream, size_t slot, const void* halves, int64_t count) {
  if (!halves) return nullptr;
  float* const to = room(stream, slot, count);
  const auto* from = static_cast<const Half*>(halves);
  as_cpu(stream).enqueue([=] {
    for (int64_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
  });
  return to;
}

float* HalfMemory::rounded(Stream& stream, size_t slot, const float* values, int64_t count) {
  float* const to = room(stream, slot, count);
  as_cpu(stream).enqueue([=] {
    for (int64_t i = 0; i < count; ++i) to[i] = to_float(to_half(values[i]));
  });
  return to;
}

void HalfMemory::narrow(Stream& stream, const float* from, void* halves, int64_t count) {
  auto* to = static_cast<Half*>(halves);
  as_cpu(stream).enqueue([=] {
    for (int64_t i = 0; i < count; ++i) to[i] = to_half(from[i]);
  });
}

}  // namespace amdahl
