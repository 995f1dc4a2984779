// NCCL's environment variables: valid values and named profiles. NCCL ignores or misreads most invalid values, so that
// a benchmark would measure other settings than it reports.
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

/// Throws Error{usage} for the first NCCL_* variable with an invalid value, and for contradictory variables. Variables
/// without a rule pass. `origin`: their source, for the message ("the environment").
void check_nccl_settings(const NcclSettings& variables, std::string_view origin);

/// Whether there is a rule for this variable; otherwise `hint` receives the most similar name.
bool is_known_nccl_setting(const std::string& name, std::string& hint);

}  // namespace amdahl
