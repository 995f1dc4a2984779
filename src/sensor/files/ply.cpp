#include "sensor/files/ply.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "amdahl/error.h"
#include "files/text_tokens.h"
#include "sensor/files/cloud_rows.h"

namespace amdahl {
namespace {

constexpr const char* kRemedy = "export the cloud again";

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw Error(Cause::data_corrupt, fmt::format("{}: {}", where, what), kRemedy);
}

/// For each property of `vertex`, its column in a row of the cloud: 0 to 2 for x, y and z, from 3 for features, -1 for
/// lists.
std::vector<int> choose_places(const PlyElement& vertex, PointCloud& cloud, const std::string& path) {
  constexpr std::string_view kAxes[] = {"x", "y", "z"};
  std::vector<int> places;
  int num_axes = 0;
  for (const PlyProperty& property : vertex.properties) {
    const auto axis = std::find(std::begin(kAxes), std::end(kAxes), property.name);
    if (property.is_list()) {
      places.push_back(-1);
    } else if (axis != std::end(kAxes)) {
      places.push_back(static_cast<int>(axis - std::begin(kAxes)));
      ++num_axes;
    } else {
      cloud.feature_names.push_back(property.name);
      places.push_back(2 + static_cast<int>(cloud.feature_names.size()));
    }
  }
  if (num_axes != 3) refuse(path, "its element 'vertex' lacks x, y or z");
  require_features(cloud.feature_names.size(), path);
  return places;
}

/// Receives the scalars of a row by the index of their property.
struct PassOver {
  void value(size_t, double) {}
  void end_row() {}
};

class CloudRows {
 public:
  CloudRows(PointCloud& cloud, const PlyElement& vertex, const std::string& path)
      : places_(choose_places(vertex, cloud, path)),
        row_(3 + cloud.feature_names.size()),
        writer_(cloud, cloud.feature_names) {}
  void value(size_t property, double value) { row_[static_cast<size_t>(places_[property])] = value; }
  void end_row() { writer_.append(row_.data()); }

 private:
  std::vector<int> places_;
  std::vector<double> row_;
  CloudRowWriter writer_;
};

/// Reads the elements of a binary file in order.
class BinaryBody {
 public:
  BinaryBody(std::string_view bytes, size_t begin, const std::string& path) : bytes_(bytes), at_(begin), path_(path) {}

  template <class Rows>
  void read(const PlyElement& element, Rows&& rows) {
    size_t least = 0;
    if (!multiply_sizes(element.count, element.row_bytes(), least) || least > bytes_.size() - at_)
      refuse(path_, fmt::format("byte {}: {} rows of '{}' take {} bytes or more, and {} are there: the file is cut off",
                                at_, element.count, element.name, least, bytes_.size() - at_));
    if (element.properties.empty()) return;
    for (size_t row = 0; row < element.count; ++row) {
      for (size_t i = 0; i < element.properties.size(); ++i) {
        const PlyProperty& property = element.properties[i];
        if (property.is_list())
          pass_list(property, element, row);
        else
          rows.value(i, property.read(take(property.bytes, element, row)));
      }
      rows.end_row();
    }
  }

  /// Skips the rows.
  void skip(const PlyElement& element) {
    size_t bytes = 0;
    if (!element.has_lists() && multiply_sizes(element.count, element.row_bytes(), bytes) &&
        bytes <= bytes_.size() - at_)
      at_ += bytes;
    else
      read(element, PassOver{});
  }

  /// A line end behind the last element, as text tools write, is none of its bytes.
  void expect_end() const {
    if (bytes_.find_first_not_of("\r\n", at_) != std::string_view::npos || bytes_.size() - at_ > 2)
      refuse(path_, fmt::format("byte {}: {} bytes follow the last element", at_, bytes_.size() - at_));
  }

 private:
  const char* take(size_t bytes, const PlyElement& element, size_t row) {
    if (bytes > bytes_.size() - at_)
      refuse(path_, fmt::format("byte {}: the file is cut off in row {} of {} of '{}'", bytes_.size(), row,
                                element.count, element.name));
    at_ += bytes;
    return bytes_.data() + at_ - bytes;
  }

  void pass_list(const PlyProperty& list, const PlyElement& element, size_t row) {
    const size_t begin = at_;
    const double count = list.read_count(take(list.count_bytes, element, row));
    if (count < 0) refuse(path_, fmt::format("byte {}: a list of {} items", begin, count));
    take(static_cast<size_t>(count) * list.bytes, element, row);  // at most 2^32 items of 8 bytes
  }

  std::string_view bytes_;
  size_t at_;
  const std::string& path_;
};

/// Reads the elements of an ascii file, one row per line.
class TextBody {
 public:
  TextBody(std::string_view bytes, const PlyHeader& header, const std::string& path)
      : bytes_(bytes), at_(header.body), line_(header.body_line - 1), path_(path) {}

  template <class Rows>
  void read(const PlyElement& element, Rows&& rows) {
    if (element.properties.empty()) return;
    if (element.count > (bytes_.size() - at_ + 1) / 2)  // a row has at least one character and a line end
      refuse(path_, fmt::format("line {}: there are fewer than {} rows of '{}': the file is cut off", line_ + 1,
                                element.count, element.name));
    for (size_t row = 0; row < element.count; ++row) {
      words_ = split_blanks(next_line(element, row));
      while (words_.empty()) words_ = split_blanks(next_line(element, row));  // a blank line
      size_t word = 0;
      for (size_t i = 0; i < element.properties.size(); ++i) {
        const double value = number(word++, element);
        if (!element.properties[i].is_list())
          rows.value(i, value);
        else
          pass_list(value, word, element);
      }
      if (word != words_.size())
        fail(fmt::format("{} numbers, where a row of '{}' has {}", words_.size(), element.name, word));
      rows.end_row();
    }
  }

  void skip(const PlyElement& element) { read(element, PassOver{}); }

  void expect_end() {
    const std::string_view rest = bytes_.substr(at_);
    if (!std::all_of(rest.begin(), rest.end(), [](char c) { return c == '\n' || c == '\r' || c == ' ' || c == '\t'; }))
      refuse(path_, fmt::format("line {}: text behind the last element", line_ + 1));
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { refuse(path_, fmt::format("line {}: {}", line_, what)); }

  std::string_view next_line(const PlyElement& element, size_t row) {
    if (at_ >= bytes_.size())
      refuse(path_, fmt::format("line {}: the file is cut off after {} of {} rows of '{}'", line_ + 1, row,
                                element.count, element.name));
    const size_t end = std::min(bytes_.find_first_of("\r\n", at_), bytes_.size());
    const std::string_view line = bytes_.substr(at_, end - at_);
    at_ = std::min(end + (bytes_.substr(end, 2) == "\r\n" ? 2 : 1), bytes_.size());
    ++line_;
    constexpr size_t kLongestLine = size_t{1} << 24;  // a line is split into words before it is parsed
    if (line.size() > kLongestLine) fail(fmt::format("it is longer than {} bytes", kLongestLine));
    return line;
  }

  double number(size_t word, const PlyElement& element) {
    if (word >= words_.size())
      fail(fmt::format("{} numbers are too few for a row of '{}'", words_.size(), element.name));
    double value = 0;
    if (!parse_number(words_[word], value)) fail(fmt::format("'{}' is no number", printable(words_[word], 40)));
    return value;
  }

  void pass_list(double count, size_t& word, const PlyElement& element) {
    if (!(count >= 0) || count > static_cast<double>(words_.size()) || count != std::floor(count))
      fail(fmt::format("a list of {} items in a row of {} numbers", count, words_.size()));
    for (auto left = static_cast<size_t>(count); left > 0; --left) number(word++, element);
  }

  std::string_view bytes_;
  size_t at_;
  int64_t line_;  // line number of the last row read
  const std::string& path_;
  std::vector<std::string_view> words_;
};

template <class Body>
void read_elements(const PlyHeader& header, Body body, PointCloud& cloud, const std::string& path) {
  bool found = false;
  for (const PlyElement& element : header.elements) {
    if (element.name != "vertex" || found) {
      body.skip(element);
      continue;
    }
    found = true;
    body.read(element, CloudRows(cloud, element, path));
  }
  if (!found) refuse(path, "it has no element 'vertex'");
  body.expect_end();
}

}  // namespace

PointCloud parse_ply(std::string_view bytes, const std::string& path) {
  const PlyHeader header = parse_ply_header(bytes, path);
  PointCloud cloud;
  cloud.format = fmt::format("PLY {}", to_string(header.format));
  if (header.format == PlyHeader::Format::ascii)
    read_elements(header, TextBody(bytes, header, path), cloud, path);
  else
    read_elements(header, BinaryBody(bytes, header.body, path), cloud, path);
  return cloud;
}

}  // namespace amdahl
