#include "files/token_file.h"

#include <fmt/format.h>

#include <cstring>

#include "files/whole_file.h"

namespace amdahl {
namespace {

constexpr int32_t kTokenMagic = 20240520, kTokenVersion = 1;
constexpr size_t kTokenHeaderBytes = 256 * sizeof(int32_t), kTokenBytes = sizeof(uint16_t);

int32_t header_number(std::string_view bytes, size_t index) {
  int32_t number = 0;
  std::memcpy(&number, bytes.data() + index * sizeof number, sizeof number);
  return number;
}

[[noreturn]] void refuse_tokens(const std::string& origin, const std::string& what) {
  throw Error(Cause::data_corrupt, fmt::format("{}: {}", origin, what),
              "16-bit tokens, with the header of 256 int32 or without a header");
}

}  // namespace

TokenFile parse_token_file(std::string_view bytes, const std::string& origin) {
  TokenFile file;
  if (bytes.empty()) refuse_tokens(origin, "the file is empty");
  if (bytes.size() >= sizeof kTokenMagic && header_number(bytes, 0) == kTokenMagic) {
    if (bytes.size() < kTokenHeaderBytes)
      refuse_tokens(origin, fmt::format("byte {}: the file is cut off within its header of {} bytes", bytes.size(),
                                        kTokenHeaderBytes));
    if (header_number(bytes, 1) != kTokenVersion)
      refuse_tokens(origin,
                    fmt::format("byte 4: version {} of the format is not known, only version {}, whose tokens have 16 "
                                "bits",
                                header_number(bytes, 1), kTokenVersion));
    const size_t present = bytes.size() - kTokenHeaderBytes;
    const int64_t expected = header_number(bytes, 2);
    if (expected < 1 || static_cast<size_t>(expected) * kTokenBytes != present)
      refuse_tokens(origin, fmt::format("byte 8: the header has {} tokens, and {} bytes follow it", expected, present));
    file.header_bytes = kTokenHeaderBytes;
  }
  const std::string_view body = bytes.substr(file.header_bytes);
  if (body.size() % kTokenBytes != 0)
    refuse_tokens(origin, fmt::format("{} bytes are half a token too many", body.size()));
  file.tokens.resize(body.size() / kTokenBytes);
  std::memcpy(file.tokens.data(), body.data(), body.size());
  return file;
}

TokenFile read_token_file(const std::filesystem::path& path) {
  return parse_token_file(read_file(path, Cause::usage, kMostDataBytes), path.string());
}

}  // namespace amdahl
