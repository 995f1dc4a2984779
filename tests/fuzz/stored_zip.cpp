#include "stored_zip.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace amdahl::fuzz {
namespace {

// Offsets in an entry of the directory and in the header before an entry's data (APPNOTE 4.3.12 and 4.3.7).
constexpr std::string_view kDirectoryEntry = "PK\x01\x02", kLocalHeader = "PK\x03\x04";
constexpr size_t kMethod = 10, kChecksum = 16, kSize = 20, kOffset = 42, kDirectoryBytes = 46;
constexpr size_t kLocalChecksum = 14, kLocalNameLength = 26, kLocalExtraLength = 28, kLocalBytes = 30;

uint32_t number(const std::string& bytes, size_t at, size_t width) {
  uint32_t value = 0;
  for (size_t i = 0; i < width; ++i) value |= uint32_t{static_cast<unsigned char>(bytes[at + i])} << (8 * i);
  return value;
}

void set_checksum(std::string& bytes, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

uint32_t crc32_of(std::string_view bytes) {
  constexpr uint32_t kPolynomial = 0xedb88320;  // reflected, as zip has it
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
  }
  return ~crc;
}

}  // namespace

std::string with_checksums(std::string archive) {
  for (size_t at = archive.find(kDirectoryEntry); at != std::string::npos; at = archive.find(kDirectoryEntry, at + 1)) {
    if (at + kDirectoryBytes > archive.size()) break;
    const size_t local = number(archive, at + kOffset, 4), size = number(archive, at + kSize, 4);
    if (number(archive, at + kMethod, 2) != 0 || local + kLocalBytes > archive.size() ||
        archive.compare(local, kLocalHeader.size(), kLocalHeader) != 0)
      continue;
    const size_t data = local + kLocalBytes + number(archive, local + kLocalNameLength, 2) +
                        number(archive, local + kLocalExtraLength, 2);
    if (data + size > archive.size()) continue;
    const uint32_t crc = crc32_of(std::string_view(archive).substr(data, size));
    set_checksum(archive, at + kChecksum, crc);
    set_checksum(archive, local + kLocalChecksum, crc);
  }
  return archive;
}

}  // namespace amdahl::fuzz
