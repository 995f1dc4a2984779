#include <fmt/format.h>

#include <charconv>
#include <unordered_set>

#include "files/text_tokens.h"
#include "sensor/files/ply.h"

namespace amdahl {
namespace {

struct TypeRow {
  std::string_view name, sized_name;
  ScalarKind kind;
  size_t bytes;
};

constexpr TypeRow kTypes[] = {
    {"char", "int8", ScalarKind::whole, 1},        {"uchar", "uint8", ScalarKind::natural, 1},
    {"short", "int16", ScalarKind::whole, 2},      {"ushort", "uint16", ScalarKind::natural, 2},
    {"int", "int32", ScalarKind::whole, 4},        {"uint", "uint32", ScalarKind::natural, 4},
    {"float", "float32", ScalarKind::floating, 4}, {"double", "float64", ScalarKind::floating, 8},
};

class HeaderParser {
 public:
  HeaderParser(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  PlyHeader parse() {
    if (bytes_.empty()) fail("the file is empty");
    if (next_line() != "ply") fail("this is not a PLY file");
    for (bool has_format = false;;) {
      const std::string_view line = next_line();
      words_ = split_blanks(line);
      if (words_.empty() || words_[0] == "comment" || words_[0] == "obj_info") continue;
      if (words_[0] == "format") {
        add_format();
        has_format = true;
      } else if (words_[0] == "element") {
        add_element();
      } else if (words_[0] == "property") {
        add_property();
      } else if (words_[0] == "end_header") {
        if (!has_format) fail("the header has no format");
        break;
      } else {
        fail(fmt::format("'{}' is no word of a header", words_[0]));
      }
    }
    header_.body = at_;
    header_.body_line = line_ + 1;
    return std::move(header_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Cause::data_corrupt, fmt::format("{}, line {}: {}", path_, line_, what),
                "a PLY file of version 1.0, ascii or binary");
  }

  // Header lines are short: a longer line is not a header and is not searched to its end.
  std::string_view next_line() {
    constexpr size_t kLongestLine = 1 << 16, kLongestHeader = size_t{1} << 24;
    ++line_;
    const std::string_view rest = bytes_.substr(at_, kLongestLine);
    // The first line shows what ends the lines: a binary body may begin with the other character.
    if (line_ == 1 && rest.starts_with("ply\r") && !rest.starts_with("ply\r\n")) line_end_ = '\r';
    const size_t end = rest.find(line_end_);
    if (end == std::string_view::npos)
      fail(line_ == 1 ? "this is not a PLY file" : "the file is cut off within its header");
    at_ += end + 1;
    if (at_ > kLongestHeader) fail(fmt::format("the header is longer than {} bytes", kLongestHeader));
    std::string_view line = rest.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  void add_format() {
    using Format = PlyHeader::Format;
    for (const Format format : {Format::ascii, Format::binary_little_endian, Format::binary_big_endian})
      if (words_.size() == 3 && words_[1] == to_string(format) && words_[2] == "1.0") {
        header_.format = format;
        return;
      }
    fail("the format is not ascii, binary_little_endian or binary_big_endian 1.0");
  }

  void add_element() {
    size_t count = 0;
    if (words_.size() != 3) fail("'element NAME COUNT' was expected");
    const auto [end, error] = std::from_chars(words_[2].data(), words_[2].data() + words_[2].size(), count);
    if (error != std::errc{} || end != words_[2].data() + words_[2].size())
      fail(fmt::format("'{}' is no count", words_[2]));
    header_.elements.push_back({std::string(words_[1]), count, {}});
    names_.clear();
  }

  ReadScalar find_type(std::string_view name, size_t& bytes) const {
    for (const TypeRow& row : kTypes)
      if (name == row.name || name == row.sized_name) {
        bytes = row.bytes;
        return find_scalar(row.kind, row.bytes, header_.format == PlyHeader::Format::binary_big_endian);
      }
    fail(fmt::format("'{}' is no type of a property", name));
  }

  void add_property() {
    if (header_.elements.empty()) fail("a property before any element");
    std::vector<PlyProperty>& properties = header_.elements.back().properties;
    PlyProperty property;
    const bool list = words_.size() > 1 && words_[1] == "list";
    if (words_.size() != (list ? 5 : 3)) fail("'property TYPE NAME' or 'property list TYPE TYPE NAME' was expected");
    if (list) {
      property.read_count = find_type(words_[2], property.count_bytes);
      if (words_[2].starts_with('f') || words_[2] == "double") fail("the length of a list is no whole number");
    }
    property.read = find_type(words_[list ? 3 : 1], property.bytes);
    property.name = words_.back();
    if (!names_.insert(property.name).second) fail(fmt::format("a second property '{}'", property.name));
    properties.push_back(std::move(property));
  }

  std::string_view bytes_;
  const std::string& path_;
  PlyHeader header_;
  std::vector<std::string_view> words_;
  std::unordered_set<std::string> names_;  // property names of the last element
  size_t at_ = 0;
  int64_t line_ = 0;
  char line_end_ = '\n';
};

}  // namespace

bool PlyElement::has_lists() const {
  for (const PlyProperty& property : properties)
    if (property.is_list()) return true;
  return false;
}

size_t PlyElement::row_bytes() const {
  size_t bytes = 0;
  for (const PlyProperty& property : properties) bytes += property.is_list() ? property.count_bytes : property.bytes;
  return bytes;
}

std::string_view to_string(PlyHeader::Format format) {
  constexpr std::string_view kNames[] = {"ascii", "binary_little_endian", "binary_big_endian"};
  return kNames[static_cast<size_t>(format)];
}

PlyHeader parse_ply_header(std::string_view bytes, const std::string& path) {
  return HeaderParser(bytes, path).parse();
}

}  // namespace amdahl
