#include "files/safetensors_header.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "amdahl/error.h"

namespace amdahl {
namespace {

/// Reads the tokens of the JSON that a header can have: strings, whole numbers and punctuation.
class TensorHeaderScanner {
 public:
  TensorHeaderScanner(std::string_view text, size_t offset, const std::string& origin)
      : text_(text), offset_(offset), origin_(origin) {}

  bool take(char letter) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != letter) return false;
    ++at_;
    return true;
  }
  void expect(char letter) {
    if (!take(letter)) fail(fmt::format("'{}' was expected", letter));
  }
  bool at_end() {
    skip_blanks();
    return at_ == text_.size();
  }
  int64_t whole() {
    skip_blanks();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{} || value < 0) fail("a size was expected");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }
  std::string string() {
    expect('"');
    std::string value;
    for (;;) {
      if (at_ == text_.size()) fail("a string never ends");
      const char letter = text_[at_++];
      if (letter == '"') return value;
      if (static_cast<unsigned char>(letter) < 0x20) fail("a control character in a string");
      if (letter == '\\')
        append_escape(value);
      else
        value += letter;
    }
  }
  /// Calls `visit(key)` for each member of an object; it reads the value.
  template <class Visit>
  void object(Visit&& visit) {
    expect('{');
    if (take('}')) return;
    do {
      const std::string key = string();
      expect(':');
      visit(key);
    } while (take(','));
    expect('}');
  }
  /// Calls `visit()` for each element of an array; it reads the element.
  template <class Visit>
  void array(Visit&& visit) {
    expect('[');
    if (take(']')) return;
    do {
      visit();
    } while (take(','));
    expect(']');
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Cause::data_corrupt, fmt::format("{}: byte {}, in the header: {}", origin_, offset_ + at_, what),
                "the file as it was written, complete");
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && std::strchr(" \t\r\n", text_[at_]) && text_[at_] != '\0') ++at_;
  }
  void append_escape(std::string& value) {
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    if (at_ == text_.size()) fail("a string never ends");
    const char letter = text_[at_++];
    if (letter == 'u') return append_code_point(value);
    const size_t index = kLetters.find(letter);
    if (index == std::string_view::npos) fail(fmt::format("'\\{}' is no escape", letter));
    value += kMeanings[index];
  }
  uint32_t four_digits() {
    uint32_t code = 0;
    const char *begin = text_.data() + at_, *end = begin + 4;
    if (text_.size() - at_ < 4 || std::from_chars(begin, end, code, 16).ptr != end)
      fail("four hexadecimal digits were expected");
    at_ += 4;
    return code;
  }
  void append_code_point(std::string& value) {
    uint32_t code = four_digits();
    const bool high = code >= 0xd800 && code < 0xdc00;
    if (high && text_.substr(at_, 2) == "\\u") {  // a pair of surrogates
      at_ += 2;
      const uint32_t low = four_digits();
      if (low < 0xdc00 || low > 0xdfff) fail("half of a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xd800 && code < 0xe000) {
      fail("half of a surrogate pair");
    }
    const auto put = [&](uint32_t byte) { value += static_cast<char>(byte); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
      put(0xc0 | code >> 6);
    } else {
      if (code < 0x10000) {
        put(0xe0 | code >> 12);
      } else {
        put(0xf0 | code >> 18);
        put(0x80 | (code >> 12 & 63));
      }
      put(0x80 | (code >> 6 & 63));
    }
    put(0x80 | (code & 63));
  }

  std::string_view text_;
  size_t offset_;  // of the text in the file
  const std::string& origin_;
  size_t at_ = 0;
};

HeaderEntry scan_entry(TensorHeaderScanner& scanner, const std::string& name) {
  constexpr size_t kMostDimensions = 64;
  HeaderEntry entry;
  entry.name = name;
  bool has_type = false, has_shape = false, has_offsets = false;
  const auto once = [&](bool& seen) {
    if (seen) scanner.fail(fmt::format("a member of tensor '{}' occurs twice", name));
    seen = true;
  };
  scanner.object([&](const std::string& key) {
    if (key == "dtype") {
      once(has_type);
      entry.dtype = scanner.string();
    } else if (key == "shape") {
      once(has_shape);
      scanner.array([&] {
        if (entry.shape.size() == kMostDimensions) scanner.fail("more than 64 dimensions");
        entry.shape.push_back(scanner.whole());
      });
    } else if (key == "data_offsets") {
      once(has_offsets);
      scanner.expect('[');
      entry.begin = static_cast<size_t>(scanner.whole());
      scanner.expect(',');
      entry.end = static_cast<size_t>(scanner.whole());
      scanner.expect(']');
    } else {
      scanner.fail(fmt::format("'{}' is no member of a tensor", key));
    }
  });
  if (!has_type || !has_shape || !has_offsets)
    scanner.fail(fmt::format("tensor '{}' needs dtype, shape and data_offsets", name));
  return entry;
}

}  // namespace

SafetensorsHeader scan_safetensors_header(std::string_view text, size_t offset, const std::string& origin) {
  SafetensorsHeader header;
  bool has_metadata = false;
  TensorHeaderScanner scanner(text, offset, origin);
  scanner.object([&](const std::string& name) {
    if (name != kMetadataName) {
      header.entries.push_back(scan_entry(scanner, name));
      return;
    }
    if (has_metadata) scanner.fail("two objects of metadata");
    has_metadata = true;
    scanner.object([&](const std::string& key) {
      if (!header.metadata.emplace(key, scanner.string()).second)
        scanner.fail(fmt::format("'{}' occurs twice in the metadata", key));
    });
  });
  if (!scanner.at_end()) scanner.fail("something follows the object");
  return header;
}

std::string quote_json(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\')
      quoted += {'\\', letter};
    else if (static_cast<unsigned char>(letter) < 0x20)
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    else
      quoted += letter;
  }
  return quoted + "\"";
}

}  // namespace amdahl
