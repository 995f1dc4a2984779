// The values of `comm`: whose collectives the ranks use.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amdahl/machine.h"
#include "symmetric/symmetric_collectives.h"

namespace amdahl {

/// A value of EngineConfig::comm.
struct CommRow {
  std::string_view name;
  bool symmetric = false;
  SymmetricAlgorithm all_reduce = SymmetricAlgorithm::automatic;
};
/// Error{usage} with the nearest name.
const CommRow& find_comm(std::string_view name);

/// The options of symmetric collectives; absent when the backend's collectives are used. Reads `comm_table`; errors as
/// of reading a file.
std::optional<SymmetricOptions> symmetric_options(const EngineConfig& config, const std::string& device_kind);

}  // namespace amdahl
