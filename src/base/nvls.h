// Whether NCCL may add up an all-reduce inside NVLink's switches (NVLink SHARP, NVLS), by its environment variables.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace amdahl {

/// The variable that keeps NCCL from it: "NCCL_NVLS_ENABLE=0", "NCCL_ALGO=Ring"; empty where nothing does.
/// `collective` as amdahl names it: "all_reduce". NCCL_ALGO chooses among kernels for ordinary buffers; kernels for
/// buffers registered as symmetric windows use the switches whatever it says.
std::string nvls_refusal(const std::map<std::string, std::string>& variables, std::string_view collective,
                         bool symmetric_windows);

}  // namespace amdahl
