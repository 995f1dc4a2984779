#include "mutator.h"

#include <algorithm>
#include <cstring>

namespace amdahl::fuzz {
namespace {

constexpr std::string_view kNumbers[] = {"0",
                                         "-0",
                                         "-1",
                                         "1",
                                         "2",
                                         "1.5",
                                         "0x10",
                                         "1e5",
                                         "1e308",
                                         "1e309",
                                         "-1e309",
                                         "1e-320",
                                         "nan",
                                         "inf",
                                         "-inf",
                                         "127",
                                         "128",
                                         "255",
                                         "256",
                                         "32768",
                                         "65535",
                                         "65536",
                                         "16777216",
                                         "16777217",
                                         "1000000000",
                                         "2147483647",
                                         "2147483648",
                                         "-2147483649",
                                         "4294967295",
                                         "4294967296",
                                         "9007199254740993",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "-9223372036854775809",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "123456789012345678901234567890",
                                         "0.1234567890123456789012345678901234567890"};

constexpr std::string_view kTokens[] = {"\"",
                                        "'",
                                        ",",
                                        ";",
                                        "\t",
                                        "\n",
                                        "\r",
                                        "\r\n",
                                        "{",
                                        "}",
                                        "[",
                                        "]",
                                        "[[",
                                        "]]",
                                        "(",
                                        ")",
                                        ":",
                                        "=",
                                        ".",
                                        "#",
                                        "\\",
                                        "\\u0000",
                                        "\\ud800",
                                        "\xff",
                                        "\xef\xbb\xbf",
                                        "\xc3",
                                        "null",
                                        "true",
                                        "false",
                                        "{}",
                                        "[]",
                                        "\"\"",
                                        "NA",
                                        "?",
                                        " ",
                                        "  ",
                                        "-",
                                        "+",
                                        "e",
                                        "list",
                                        "property list uchar int v\n",
                                        "element face 3\n",
                                        "end_header\n",
                                        "descr",
                                        "<f8",
                                        "|u1",
                                        ">i2",
                                        "True",
                                        "L",
                                        "[device]\n",
                                        "time",
                                        "y"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string_view Mutator::piece_of(const std::string& bytes, size_t longest) {
  const size_t begin = below(bytes.size());
  return std::string_view(bytes).substr(begin, 1 + below(longest));
}

void Mutator::flip_bit(std::string& bytes) {
  char& byte = bytes[below(bytes.size())];
  byte = static_cast<char>(byte ^ (1 << below(8)));
}

void Mutator::set_byte(std::string& bytes) { bytes[below(bytes.size())] = static_cast<char>(below(256)); }

void Mutator::truncate(std::string& bytes) { bytes.resize(below(bytes.size())); }

void Mutator::remove_piece(std::string& bytes) { bytes.erase(below(bytes.size()), 1 + below(16)); }

void Mutator::move_piece(std::string& bytes) {
  const std::string piece(piece_of(bytes, 64));
  bytes.insert(below(bytes.size()), piece);
}

/// Many times: what is quadratic in the number of something shows.
void Mutator::repeat_piece(std::string& bytes) {
  const size_t begin = below(bytes.size());
  const std::string piece = bytes.substr(begin, 1 + below(64));
  const size_t times = size_t{1} << below(12);
  std::string repeated;
  for (size_t i = 0; i < times && repeated.size() + bytes.size() < kMostBytes; ++i) repeated += piece;
  bytes.insert(begin, repeated);
}

void Mutator::splice(std::string& bytes) {
  const std::string& other = corpus_[below(corpus_.size())];
  bytes.resize(below(bytes.size() + 1));
  bytes += std::string_view(other).substr(below(other.size() + 1));
}

void Mutator::change_digit(std::string& bytes) {
  const size_t begin = below(bytes.size());
  const auto digit = std::find_if(bytes.begin() + static_cast<std::ptrdiff_t>(begin), bytes.end(), is_digit);
  if (digit != bytes.end()) *digit = static_cast<char>('0' + below(10));
}

void Mutator::replace_number(std::string& bytes) {
  const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size()));
  const auto begin = std::find_if(from, bytes.end(), is_digit);
  const auto end = std::find_if_not(begin, bytes.end(), [](char c) { return is_digit(c) || c == '.' || c == 'e'; });
  bytes.replace(begin, end, kNumbers[below(std::size(kNumbers))]);
}

void Mutator::insert_token(std::string& bytes) {
  bytes.insert(below(bytes.size() + 1), kTokens[below(std::size(kTokens))]);
}

/// As binary headers have them.
void Mutator::write_whole_number(std::string& bytes) {
  constexpr uint64_t kValues[] = {0,
                                  1,
                                  0x7f,
                                  0x80,
                                  0xff,
                                  0x7fff,
                                  0x8000,
                                  0xffff,
                                  0x7fffffff,
                                  0x80000000u,
                                  0xffffffff,
                                  uint64_t{1} << 32,
                                  ~uint64_t{0} >> 1,
                                  ~uint64_t{0}};
  const uint64_t value = kValues[below(std::size(kValues))];
  const size_t at = below(bytes.size()), width = std::min(size_t{1} << below(4), bytes.size() - at);
  std::memcpy(bytes.data() + at, &value, width);
}

std::string Mutator::next() {
  constexpr void (Mutator::*kChanges[])(std::string&) = {
      &Mutator::flip_bit,     &Mutator::set_byte,          &Mutator::truncate,       &Mutator::remove_piece,
      &Mutator::move_piece,   &Mutator::repeat_piece,      &Mutator::splice,         &Mutator::change_digit,
      &Mutator::change_digit, &Mutator::replace_number,    &Mutator::replace_number, &Mutator::insert_token,
      &Mutator::insert_token, &Mutator::write_whole_number};
  std::string bytes = corpus_[below(corpus_.size())];
  for (size_t left = size_t{1} << below(4); left > 0 && !bytes.empty(); --left)
    (this->*kChanges[below(std::size(kChanges))])(bytes);
  if (bytes.size() > kMostBytes) bytes.resize(kMostBytes);
  return bytes;
}

}  // namespace amdahl::fuzz
