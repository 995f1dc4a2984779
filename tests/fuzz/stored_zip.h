// Checksums of zip archives whose entries are stored without compression.
#pragma once

#include <string>

namespace amdahl::fuzz {

/// The archive with the CRC-32 of each stored entry made true, as far as its directory can be followed.
std::string with_checksums(std::string archive);

}  // namespace amdahl::fuzz
