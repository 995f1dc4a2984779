// Kinds of GPUs as TOML.
#pragma once

#include <string_view>

#include "amdahl/machine.h"

namespace amdahl {

/// Parses a kind of GPU; `origin` names the file in errors, as in "gpu.toml:3: ...". Throws what load_gpu_kind throws.
GpuKind gpu_kind_from_toml(std::string_view text, std::string_view origin);

}  // namespace amdahl
