#include "files/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace amdahl {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr const char* kRemedy = "write it with numpy.save from an array of numbers";

[[noreturn]] void refuse(const std::string& origin, const std::string& what, const std::string& remedy = kRemedy) {
  throw Error(Cause::data_corrupt, fmt::format("{}: {}", origin, what), remedy);
}

/// Parses the header's dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class HeaderScanner {
 public:
  HeaderScanner(std::string_view text, size_t offset, const std::string& origin)
      : text_(text), offset_(offset), origin_(origin) {}

  bool take(std::string_view word) {
    skip_blanks();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail(fmt::format("'{}' was expected", word));
  }
  std::string quoted() {
    skip_blanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') fail("a quoted word was expected");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) fail("a quote never closes");
    std::string word(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return word;
  }
  int64_t whole() {
    skip_blanks();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{} || value < 0) fail("a size was expected");
    at_ = static_cast<size_t>(end - text_.data());
    take("L");  // suffix of Python 2 integers
    return value;
  }
  bool at_end() {
    skip_blanks();
    return at_ == text_.size();
  }
  [[noreturn]] void fail(const std::string& what) const {
    refuse(origin_, fmt::format("byte {}, in the header: {}", offset_ + at_, what));
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  std::string_view text_;
  size_t offset_;  // offset of the text in the file
  const std::string& origin_;
  size_t at_ = 0;
};

std::vector<int64_t> scan_shape(HeaderScanner& scanner) {
  std::vector<int64_t> shape;
  constexpr size_t kMostDims = 64;  // numpy's limit
  scanner.expect("(");
  while (!scanner.take(")")) {
    if (shape.size() == kMostDims) scanner.fail(fmt::format("more than {} dimensions", kMostDims));
    shape.push_back(scanner.whole());
    if (scanner.take(",")) continue;
    scanner.expect(")");
    break;
  }
  return shape;
}

/// Sets element size and reader from '<f4', '>f8', '|u1', ...
void set_type(NpyArray& array, const std::string& type) {
  const char order = type.empty() ? '\0' : type[0];
  size_t bytes = 0;
  const auto [end, error] =
      std::from_chars(type.data() + std::min<size_t>(2, type.size()), type.data() + type.size(), bytes);
  if (type.size() >= 3 && error == std::errc{} && end == type.data() + type.size() &&
      std::string_view("<>|=").find(order) != std::string_view::npos)
    for (const auto& [letter, kind] :
         {std::pair{'f', ScalarKind::floating}, {'i', ScalarKind::whole}, {'u', ScalarKind::natural}})
      if (type[1] == letter) array.read = find_scalar(kind, bytes, order == '>');
  if (array.read == nullptr)
    refuse(array.origin, fmt::format("elements of type '{}' are not read", type),
           "f2, f4, f8, or whole numbers: array.astype('f4')");
  array.element_bytes = bytes;
  array.type = type;
}

void parse_header(NpyArray& array, std::string_view text, size_t offset) {
  HeaderScanner scanner(text, offset, array.origin);
  bool has_type = false, has_order = false, has_shape = false;
  scanner.expect("{");
  while (!scanner.take("}")) {
    const std::string key = scanner.quoted();
    scanner.expect(":");
    if (key == "descr") {
      if (scanner.take("["))
        refuse(array.origin, "an array of records (a structured type) is not read", "save one array of plain numbers");
      set_type(array, scanner.quoted());
      has_type = true;
    } else if (key == "fortran_order") {
      array.fortran_order = scanner.take("True");
      if (!array.fortran_order) scanner.expect("False");
      has_order = true;
    } else if (key == "shape") {
      array.shape = scan_shape(scanner);
      has_shape = true;
    } else {
      scanner.fail(fmt::format("'{}' is no key of it", key));
    }
    if (scanner.take(",")) continue;
    scanner.expect("}");
    break;
  }
  if (!scanner.at_end()) scanner.fail("something follows the dictionary");
  if (!has_type || !has_order || !has_shape) scanner.fail("it needs descr, fortran_order and shape");
}

void check_size(const NpyArray& array) {
  size_t expected = array.element_bytes;
  bool fits = true;
  for (const int64_t size : array.shape) fits = fits && multiply_sizes(expected, static_cast<size_t>(size), expected);
  if (!fits) refuse(array.origin, fmt::format("shape {} does not fit into memory", array.shape_text()));
  const size_t present = array.bytes.size() - array.begin;
  if (present != expected)
    refuse(array.origin,
           fmt::format("shape {} takes {} bytes from byte {} on, and there are {}{}", array.shape_text(), expected,
                       array.begin, present, present < expected ? ": the file is cut off" : ""));
}

std::string_view type_text(DType type) {
  switch (type) {
    case DType::f32:
      return "<f4";
    case DType::f64:
      return "<f8";
    case DType::f16:
      return "<f2";
    case DType::i32:
      return "<i4";
    case DType::i64:
      return "<i8";
    case DType::u8:
      return "|u1";
    case DType::u32:
      return "<u4";
    case DType::bf16:
      break;
  }
  throw Error(Cause::usage, fmt::format("NumPy has no {}", to_string(type)), "an array of f32 or f16");
}

}  // namespace

size_t NpyArray::num_elements() const {
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  return count;
}

std::string NpyArray::shape_text() const { return fmt::format("[{}]", fmt::join(shape, ", ")); }

NpyArray parse_npy(std::string bytes, std::string origin) {
  NpyArray array;
  array.origin = std::move(origin);
  array.bytes = std::move(bytes);
  const std::string_view all = array.bytes;
  if (all.empty()) refuse(array.origin, "the file is empty");
  if (all.substr(0, kMagic.size()) != kMagic) refuse(array.origin, "byte 0: this is not a .npy file");
  if (all.size() < kMagic.size() + 2) refuse(array.origin, fmt::format("byte {}: the file is cut off", all.size()));
  const auto major = static_cast<unsigned char>(all[kMagic.size()]);
  if (major < 1 || major > 3)
    refuse(array.origin, fmt::format("byte {}: format version {} is not known", kMagic.size(), major));
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t text_begin = kMagic.size() + 2 + length_bytes;
  if (all.size() < text_begin) refuse(array.origin, fmt::format("byte {}: the file is cut off", all.size()));
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i)
    length |= static_cast<size_t>(static_cast<unsigned char>(all[text_begin - length_bytes + i])) << (8 * i);
  if (length > all.size() - text_begin)
    refuse(array.origin, fmt::format("byte {}: the file is cut off within its header of {} bytes", all.size(), length));
  array.begin = text_begin + length;
  parse_header(array, all.substr(text_begin, length), text_begin);
  check_size(array);
  return array;
}

size_t num_bytes(const FileArray& array) {
  size_t bytes = size_of(array.dtype);
  for (const int64_t size : array.shape)
    if (size < 0 || !multiply_sizes(bytes, static_cast<size_t>(size), bytes))
      throw Error(Cause::usage, fmt::format("an array of shape [{}] cannot be", fmt::join(array.shape, ", ")),
                  "sizes of at least 0 that fit into memory");
  return bytes;
}

std::string npy_header(const FileArray& array) {
  // A one-element tuple needs a trailing comma.
  const std::string shape = fmt::format("({}{})", fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", type_text(array.dtype), shape);
  constexpr size_t kBefore = 10, kAlignment = 64;  // the format requires the elements to start at a multiple of 64
  text.append(kAlignment - 1 - (kBefore + text.size()) % kAlignment, ' ');
  text += '\n';
  if (text.size() > 0xffff) throw Error(Cause::usage, "an array of thousands of dimensions", "fewer dimensions");
  std::string header(kMagic);
  header += {'\1', '\0', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace amdahl
