// What data sheets say of kinds of GPUs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/machine.h"

namespace amdahl {

/// The only table of GPUs.
const std::vector<GpuKind>& gpu_kinds();
/// The kind whose name is part of a device's name, as "H200" in "NVIDIA H200"; null: none.
const GpuKind* gpu_kind_of(std::string_view device_name);
/// Dense matrix products of a math mode.
double tflops_of(const GpuKind& gpu, std::string_view math);

/// FLOP/s of dense matrix products in a math mode, of `devices` devices with these names together. Absent unless all
/// are named and have exactly the figures of the table: not a variant or a part of a GPU in it.
std::optional<double> peak_flops(const std::vector<std::string>& names, int64_t devices, std::string_view math);

}  // namespace amdahl
