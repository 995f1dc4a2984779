// Whether NCCL's environment variables allow reductions inside NVLink switches (NVLink SHARP, NVLS).
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace amdahl {

/// The variable that disables NVLS: "NCCL_NVLS_ENABLE=0", "NCCL_ALGO=Ring"; empty when none does. `collective`:
/// amdahl's name, "all_reduce". NCCL_ALGO applies to kernels for ordinary buffers only; kernels for buffers registered
/// as symmetric windows use the switches regardless of it.
std::string nvls_refusal(const std::map<std::string, std::string>& variables, std::string_view collective,
                         bool symmetric_windows);

}  // namespace amdahl
