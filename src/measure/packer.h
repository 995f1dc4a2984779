// Numbers and texts that ranks exchange, as bytes. Ranks may run on different hosts of one architecture.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "amdahl/error.h"

namespace amdahl {

class Packer {
 public:
  void number(double value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value)); }
  void numbers(const std::vector<double>& values) {
    number(static_cast<double>(values.size()));
    for (double value : values) number(value);
  }
  void text(const std::string& value) {
    number(static_cast<double>(value.size()));
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Reads in the order in which it was packed. `bytes` must outlive it.
class Unpacker {
 public:
  explicit Unpacker(const std::string& bytes) : bytes_(bytes) {}
  double number() {
    double value = 0;
    std::memcpy(&value, take(sizeof(value)), sizeof(value));
    return value;
  }
  std::vector<double> numbers() {
    std::vector<double> values(static_cast<size_t>(number()));
    for (double& value : values) value = number();
    return values;
  }
  std::string text() {
    const auto size = static_cast<size_t>(number());
    return {take(size), size};
  }

 private:
  const char* take(size_t bytes) {
    if (bytes > bytes_.size() - at_) throw Error(Cause::internal, "a rank's result is shorter than expected");
    at_ += bytes;
    return bytes_.data() + at_ - bytes;
  }

  const std::string& bytes_;
  size_t at_ = 0;
};

}  // namespace amdahl
