// Loads and stores of elements in the CPU's loops. For the two sources that are built twice: everything is in an
// anonymous namespace, so that the linker cannot merge code of the two builds.
#pragma once

#include "base/small_floats.h"
#include "sensor/ops/sensor_ops.h"

namespace amdahl {
namespace {

inline float load(float value) { return value; }
inline float load(Bfloat value) { return to_float(value); }
inline float load(Half value) { return to_float(value); }
inline void store(float& place, float value) { place = value; }
inline void store(Bfloat& place, float value) { place = to_bfloat(value); }
inline void store(Half& place, float value) { place = to_half(value); }

/// Calls `work` with a null pointer of the element type.
template <class Work>
void with_type(DType type, const Work& work) {
  if (type == DType::bf16) return work(static_cast<Bfloat*>(nullptr));
  if (type == DType::f16) return work(static_cast<Half*>(nullptr));
  work(static_cast<float*>(nullptr));
}

}  // namespace
}  // namespace amdahl
