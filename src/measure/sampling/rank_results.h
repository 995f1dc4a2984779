// Serialised results that the ranks of a measurement exchange: any struct whose fields are listed once.
//
// A result type T has `template <class Archive> void visit_fields(Archive&, T&)` in its namespace, which calls the
// archive with the fields in a fixed order: numbers, strings, vectors of them, and other result types.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "amdahl/error.h"
#include "comm/communicator.h"

namespace amdahl {

/// Fields to bytes, in the host's representation: ranks may run on different hosts of the same architecture.
class ResultWriter {
 public:
  template <class... Fields>
  void operator()(Fields&... fields) {
    (write(fields), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <class Field>
  void write(Field& field) {
    if constexpr (std::is_arithmetic_v<Field> || std::is_enum_v<Field>)
      bytes_.append(reinterpret_cast<const char*>(&field), sizeof(field));
    else
      visit_fields(*this, field);
  }
  void write(std::string& text) {
    write_size(text.size());
    bytes_ += text;
  }
  template <class Element>
  void write(std::vector<Element>& elements) {
    write_size(elements.size());
    for (Element& element : elements) write(element);
  }
  void write_size(uint64_t size) { bytes_.append(reinterpret_cast<const char*>(&size), sizeof(size)); }

  std::string bytes_;
};

/// Bytes to fields, in the same order. `bytes` must outlive it. Error{internal} when they end too early.
class ResultReader {
 public:
  explicit ResultReader(const std::string& bytes) : bytes_(bytes) {}
  template <class... Fields>
  void operator()(Fields&... fields) {
    (read(fields), ...);
  }

 private:
  template <class Field>
  void read(Field& field) {
    if constexpr (std::is_arithmetic_v<Field> || std::is_enum_v<Field>)
      std::memcpy(&field, take(sizeof(field)), sizeof(field));
    else
      visit_fields(*this, field);
  }
  void read(std::string& text) {
    const size_t size = read_size();
    text.assign(take(size), size);
  }
  template <class Element>
  void read(std::vector<Element>& elements) {
    const size_t size = read_size();
    if (size > bytes_.size() - at_) too_short();  // an element takes at least one byte
    elements.resize(size);
    for (Element& element : elements) read(element);
  }
  size_t read_size() {
    uint64_t size = 0;
    std::memcpy(&size, take(sizeof(size)), sizeof(size));
    return size;
  }
  const char* take(size_t bytes) {
    if (bytes > bytes_.size() - at_) too_short();
    at_ += bytes;
    return bytes_.data() + at_ - bytes;
  }
  [[noreturn]] static void too_short() { throw Error(Cause::internal, "a rank's result is shorter than expected"); }

  const std::string& bytes_;
  size_t at_ = 0;
};

template <class Result>
std::string pack_result(Result result) {
  ResultWriter writer;
  writer(result);
  return writer.take();
}

template <class Result>
Result unpack_result(const std::string& bytes) {
  Result result{};
  ResultReader reader(bytes);
  reader(result);
  return result;
}

/// Every rank's result, by rank, on every rank. Collective; also a barrier.
template <class Result>
std::vector<Result> exchange_results(Communicator& communicator, const Result& own, Deadline deadline) {
  std::vector<Result> all;
  for (const std::string& bytes : communicator.exchange(pack_result(own), deadline))
    all.push_back(unpack_result<Result>(bytes));
  return all;
}

}  // namespace amdahl
