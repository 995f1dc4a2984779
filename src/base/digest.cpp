#define XXH_INLINE_ALL  // the header alone, without a library to link
#include "base/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace amdahl {

uint64_t digest_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string digest_text(std::string_view bytes) { return fmt::format("{:016x}", digest_of(bytes)); }

std::string Fnv1a::text() const { return fmt::format("{:016x}", hash_); }

}  // namespace amdahl
