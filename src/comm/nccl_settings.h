// NCCL's settings by environment variable: which values it takes, and named sets of them. NCCL itself ignores or
// misreads most wrong ones, so that a benchmark measures something else than it says.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace amdahl {

using NcclSettings = std::map<std::string, std::string>;

struct NcclProfile {
  std::string_view name;
  std::string_view purpose;
  NcclSettings settings;
};
const std::vector<NcclProfile>& nccl_profiles();

/// Error{usage} for the first NCCL_* variable whose value NCCL does not take, and for ones that contradict each other.
/// Variables without a rule pass; `origin` says where they come from ("the environment").
void check_nccl_settings(const NcclSettings& variables, std::string_view origin);

/// Whether there is a rule for this variable; `hint` gets the nearest one otherwise.
bool is_known_nccl_setting(const std::string& name, std::string& hint);

}  // namespace amdahl
