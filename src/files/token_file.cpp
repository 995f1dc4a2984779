#include "files/token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "amdahl/error.h"
#include "files/whole_file.h"

namespace amdahl {
namespace {

constexpr size_t kTokenHeaderBytes = 256 * sizeof(int32_t);

/// First number of a file with a header. `token_bytes` 0: a file of the same family that holds something else.
struct MagicRow {
  int32_t magic, version;
  size_t token_bytes;
  const char* what;
};
constexpr MagicRow kMagics[] = {
    {20240520, 1, 2, "tokens"},
    {20240801, 7, 4, "tokens"},
    {20240522, 0, 0, "examples of an evaluation"},
    {20240326, 0, 0, "the weights of a model"},
    {20240803, 0, 0, "the weights of a model"},
    {20240327, 0, 0, "the tensors of a test"},
    {20240328, 0, 0, "the words of a tokenizer"},
    {20240527, 0, 0, "the state of a training"},
};

int32_t header_number(std::string_view bytes, size_t index) {
  int32_t number = 0;
  std::memcpy(&number, bytes.data() + index * sizeof number, sizeof number);
  return number;
}

[[noreturn]] void refuse_tokens(const std::string& origin, const std::string& what, const std::string& remedy = {}) {
  throw Error(Cause::data_corrupt, fmt::format("{}: {}", origin, what),
              remedy.empty() ? "tokens with a header of 256 int32, or without one and with `bin_type`" : remedy);
}

/// Numbers of two bytes by their place within eight.
struct Lanes {
  std::array<size_t, 4> count{}, zeros{};
  std::array<uint16_t, 4> largest{};

  /// `swap`: as big-endian numbers.
  Lanes(std::string_view body, bool swap) {
    for (size_t i = 0; 2 * i + 1 < body.size(); ++i) {
      uint16_t number = 0;
      std::memcpy(&number, body.data() + 2 * i, sizeof number);
      if (swap) number = static_cast<uint16_t>(number << 8 | number >> 8);
      ++count[i % 4];
      zeros[i % 4] += number == 0;
      largest[i % 4] = std::max(largest[i % 4], number);
    }
  }
  size_t numbers() const { return count[0] + count[1] + count[2] + count[3]; }
  bool zero(size_t lane) const { return count[lane] > 0 && zeros[lane] == count[lane]; }
  /// The high half of tokens of a vocabulary of at most half a million.
  bool high(size_t lane) const {
    constexpr uint16_t kHighest = 7;
    constexpr size_t kEnough = 8;  // to tell small numbers from small tokens
    return zero(lane) || (count[lane] >= kEnough && largest[lane] <= kHighest);
  }
  bool low(size_t lane) const {
    constexpr uint16_t kLowest = 64;
    return count[lane] > 0 && largest[lane] > kLowest && !zero(lane);
  }
};

/// Refuses tokens of 32 or 64 bits, of which every second number of 16 bits, or three of four, are 0 or nearly so.
void refuse_wider(std::string_view body, const std::string& origin) {
  const Lanes lanes(body, false);
  const auto refuse = [&](const char* share, int bits, const char* remedy) {
    refuse_tokens(origin, fmt::format("{} 16-bit number is 0 or small: the tokens have {} bits", share, bits), remedy);
  };
  constexpr size_t kLeast = 4;
  if (lanes.numbers() < kLeast || body.size() % 4 != 0) return;
  const bool some = !lanes.zero(0) || !lanes.zero(1) || !lanes.zero(2) || !lanes.zero(3);
  if (body.size() % 8 == 0 && some && lanes.zero(2) && lanes.zero(3) &&
      (lanes.zero(1) || (lanes.high(1) && lanes.low(0))))
    refuse("all but every fourth", 64, "`bin_type=u64`");
  const bool all_zero = some && lanes.zero(1) && lanes.zero(3);
  if (all_zero || (lanes.high(1) && lanes.high(3) && (lanes.low(0) || lanes.low(2))))
    refuse("every second", 32, "`bin_type=u32`");
  const Lanes big(body, true);
  const bool all_zero_first = some && lanes.zero(0) && lanes.zero(2);
  if (all_zero_first || (big.high(0) && big.high(2) && (big.low(1) || big.low(3))))
    refuse("every second", 32, "little-endian tokens: they are big-endian here");
}

template <class Token>
void read_tokens(std::string_view body, size_t first_byte, const std::string& origin, std::vector<uint32_t>& tokens) {
  tokens.reserve(body.size() / sizeof(Token));
  for (size_t at = 0; at < body.size(); at += sizeof(Token)) {
    Token token = 0;
    std::memcpy(&token, body.data() + at, sizeof token);
    if constexpr (sizeof(Token) > sizeof(uint32_t))
      if (token > std::numeric_limits<uint32_t>::max())
        refuse_tokens(origin, fmt::format("token {} (byte {}) is {}", tokens.size(), first_byte + at, token),
                      "`bin_type` with the width of the tokens, which are below 2^32");
    tokens.push_back(static_cast<uint32_t>(token));
  }
}

/// Takes the width from the header, and checks it.
void read_token_header(std::string_view bytes, const std::string& origin, const MagicRow& row, TokenFile& file) {
  if (row.token_bytes == 0)
    refuse_tokens(origin, fmt::format("its first number, {}, says that it holds {}, not tokens", row.magic, row.what),
                  "a file of tokens");
  if (bytes.size() < kTokenHeaderBytes)
    refuse_tokens(origin, fmt::format("byte {}: the file is cut off within its header of {} bytes", bytes.size(),
                                      kTokenHeaderBytes));
  if (header_number(bytes, 1) != row.version)
    refuse_tokens(origin, fmt::format("byte 4: version {} of the format {} is not known, only version {}, whose tokens "
                                      "have {} bits",
                                      header_number(bytes, 1), row.magic, row.version, 8 * row.token_bytes));
  const size_t present = bytes.size() - kTokenHeaderBytes;
  const int64_t expected = header_number(bytes, 2);
  if (expected < 1 || static_cast<size_t>(expected) * row.token_bytes != present)
    refuse_tokens(origin, fmt::format("byte 8: the header has {} tokens, and {} bytes follow it", expected, present));
  file.header_bytes = kTokenHeaderBytes;
  file.token_bytes = row.token_bytes;
}

}  // namespace

size_t token_width(const std::string& type) {
  if (type.empty()) return 0;
  if (type == "u16") return 2;
  if (type == "u32") return 4;
  if (type == "u64") return 8;
  throw Error(Cause::usage, fmt::format("`bin_type` is {}, and tokens are u16, u32 or u64", type),
              choices_hint(type, {"u16", "u32", "u64"}));
}

TokenFile parse_token_file(std::string_view bytes, const std::string& origin, size_t width) {
  TokenFile file;
  if (bytes.empty()) refuse_tokens(origin, "the file is empty");
  if (bytes.starts_with("\x93NUMPY")) refuse_tokens(origin, "it is an array of numpy", "array.tofile(FILE.bin)");
  const auto* row = bytes.size() < sizeof(int32_t)
                        ? std::end(kMagics)
                        : std::find_if(std::begin(kMagics), std::end(kMagics),
                                       [&](const MagicRow& r) { return r.magic == header_number(bytes, 0); });
  if (row != std::end(kMagics)) {
    read_token_header(bytes, origin, *row, file);
    if (width != 0 && width != file.token_bytes)
      throw Error(Cause::usage,
                  fmt::format("{}: `bin_type` has {} bits, and by its header the tokens have {}", origin, 8 * width,
                              8 * file.token_bytes),
                  "without `bin_type`");
  } else if (width != 0) {
    file.token_bytes = width;
  } else {
    refuse_wider(bytes, origin);
  }
  const std::string_view body = bytes.substr(file.header_bytes);
  if (body.size() % file.token_bytes != 0)
    refuse_tokens(origin, file.token_bytes == 2
                              ? fmt::format("{} bytes are half a token too many", body.size())
                              : fmt::format("{} bytes are no multiple of {}", body.size(), file.token_bytes));
  if (file.token_bytes == 2) read_tokens<uint16_t>(body, file.header_bytes, origin, file.tokens);
  if (file.token_bytes == 4) read_tokens<uint32_t>(body, file.header_bytes, origin, file.tokens);
  if (file.token_bytes == 8) read_tokens<uint64_t>(body, file.header_bytes, origin, file.tokens);
  return file;
}

TokenFile read_token_file(const std::filesystem::path& path, size_t width) {
  return parse_token_file(read_file(path, Cause::usage, kMostDataBytes), path.string(), width);
}

}  // namespace amdahl
