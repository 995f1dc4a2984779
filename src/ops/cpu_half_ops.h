// The CPU families of fp16: each rounds its operands to half precision and calls the f32 family that it wraps.
#pragma once

#include "ops/ops.h"

namespace amdahl {

/// Replaces the families whose operands are half precision in fp16. Recurrent layers have none.
void use_half_precision(Device& device, Ops::Families& families);

std::unique_ptr<ConvOps> make_half_conv_ops(Device& device, std::unique_ptr<ConvOps> exact);

}  // namespace amdahl
