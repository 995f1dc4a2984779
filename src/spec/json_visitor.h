// JSON of a struct from one list of its fields: visit_fields(visitor, value) names every member once; FieldWriter makes
// an object of them, FieldReader fills them and refuses what is missing or of another type. Private to this folder.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "amdahl/fabric.h"
#include "spec/json_fields.h"

namespace amdahl {

template <class T>
nlohmann::json written(T value);
template <class T>
T read_fields(const Fields& fields);

/// The last enumerator of what is read; they are numbered from 0.
template <class E>
inline constexpr E kLast = E{};
template <>
inline constexpr auto kLast<Verdict> = Verdict::same;
template <>
inline constexpr auto kLast<TestLevel> = TestLevel::none;
template <>
inline constexpr auto kLast<Recommendation> = Recommendation::single_device;
template <>
inline constexpr auto kLast<SerialTrend> = SerialTrend::falls;
template <>
inline constexpr auto kLast<PathKind> = PathKind::host;
template <>
inline constexpr auto kLast<Finding::Severity> = Finding::Severity::fault;

/// Missing optionals are left out; NaN and infinity throw Error{internal}.
class FieldWriter {
 public:
  static constexpr bool kReads = false;

  template <class T>
  void operator()(const char* name, const T& value) {
    object_[name] = json_of(name, value);
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value) (*this)(name, *value);
  }
  /// A field that is written under a condition, and that keeps its default where it is absent.
  template <class T>
  void when(bool condition, const char* name, const T& value) {
    if (condition) (*this)(name, value);
  }
  /// A text that is empty, or a number that is 0, when it is not known; numbers are never negative.
  void known(const char* name, const std::string& value) { when(!value.empty(), name, value); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void known(const char* name, const T& value, bool condition) { when(condition, name, value); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void known(const char* name, const T& value) { when(value > 0, name, value); }
  /// A derived value, which is not read.
  template <class T>
  void derived(const char* name, const T& value) {
    (*this)(name, value);
  }
  nlohmann::json take() { return std::move(object_); }

 private:
  template <class T>
  static nlohmann::json json_of(const char* name, const T& value) {
    if constexpr (std::is_same_v<T, double>)
      return finite(value, name);
    else if constexpr (std::is_arithmetic_v<T> || std::convertible_to<T, std::string_view>)
      return value;
    else if constexpr (std::is_same_v<T, Origin>)
      return origin_name(value);
    else if constexpr (std::is_enum_v<T>)
      return to_string(value);
    else if constexpr (std::is_same_v<T, Interval>)
      return interval_json(value);
    else if constexpr (std::is_same_v<T, CellKey>)
      return key_json(value);
    else if constexpr (std::is_same_v<T, Status>)
      return status_json(value);
    else if constexpr (std::is_same_v<T, Provenance>)
      return provenance_json(value);
    else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>)
      return value;
    else
      return written(value);
  }
  template <class T>
  static nlohmann::json json_of(const char* name, const std::vector<T>& values) {
    nlohmann::json array = nlohmann::json::array();
    for (const T& value : values) array.push_back(json_of(name, value));
    return array;
  }

  nlohmann::json object_ = nlohmann::json::object();
};

/// Errors are those of Fields.
class FieldReader {
 public:
  static constexpr bool kReads = true;

  explicit FieldReader(const Fields& fields) : fields_(fields) {}

  template <class T>
  void operator()(const char* name, T& value) {
    if constexpr (std::is_same_v<T, double>)
      value = fields_.number(name);
    else if constexpr (std::is_same_v<T, bool>)
      value = fields_.boolean(name);
    else if constexpr (std::is_same_v<T, int>)
      value = static_cast<int>(fields_.integer(name));
    else if constexpr (std::is_integral_v<T>)
      value = static_cast<T>(fields_.integer(name));
    else if constexpr (std::is_same_v<T, std::string>)
      value = fields_.text(name);
    else if constexpr (std::is_same_v<T, std::vector<std::string>>)
      value = fields_.texts(name);
    else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>)
      value = fields_.text_map(name);
    else if constexpr (std::is_same_v<T, Origin>)
      value = read_origin(fields_);
    else if constexpr (std::is_enum_v<T>)
      value = enumerator<T>(name);
    else
      value = of<T>(fields_.object(name));
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& value) {
    if (fields_.has(name)) (*this)(name, value.emplace());
  }
  template <class T>
  requires(!std::is_same_v<T, std::string>) void operator()(const char* name, std::vector<T>& values) {
    const nlohmann::json& array = fields_.array(name);
    for (size_t i = 0; i < array.size(); ++i) {
      if constexpr (std::is_same_v<T, double>) {
        if (!array[i].is_number()) fields_.fail(name, "is no list of numbers");
        values.push_back(array[i].get<double>());
      } else {
        values.push_back(of<T>(fields_.element(array, name, i)));
      }
    }
  }
  template <class T>
  void when(bool, const char* name, T& value) {
    if (fields_.has(name)) (*this)(name, value);
  }
  void known(const char* name, std::string& value) { value = fields_.text_or(name, ""); }
  template <class T>
  requires std::is_arithmetic_v<T>
  void known(const char* name, T& value, bool = true) {
    if constexpr (std::is_same_v<T, double>)
      value = fields_.rate_or_none(name);
    else
      value = static_cast<T>(fields_.natural_or(name, 0, std::numeric_limits<T>::max()));
  }
  template <class T>
  void derived(const char*, const T&) {}

  const Fields& fields() const { return fields_; }

 private:
  template <class T>
  static T of(const Fields& fields) {
    if constexpr (std::is_same_v<T, Interval>)
      return read_interval(fields);
    else if constexpr (std::is_same_v<T, CellKey>)
      return read_key(fields);
    else if constexpr (std::is_same_v<T, Status>)
      return read_status(fields);
    else if constexpr (std::is_same_v<T, Provenance>)
      return read_provenance(fields);
    else
      return read_fields<T>(fields);
  }
  /// The enumerator of that name.
  template <class T>
  T enumerator(const char* name) const {
    static_assert(kLast<T> != T{}, "kLast lacks this type");
    const std::string text = fields_.text(name);
    for (int i = 0; i <= static_cast<int>(kLast<T>); ++i)
      if (to_string(static_cast<T>(i)) == text) return static_cast<T>(i);
    fields_.fail(name, fmt::format("is \"{}\", which is unknown", text));
  }

  const Fields& fields_;
};

template <class T>
nlohmann::json written(T value) {
  FieldWriter writer;
  visit_fields(writer, value);
  return writer.take();
}

template <class T>
T read_fields(const Fields& fields) {
  T value;
  FieldReader reader(fields);
  visit_fields(reader, value);
  return value;
}

/// A document of its own: the fields and the version of the schema.
template <class T>
std::string versioned(const T& value) {
  nlohmann::json document = written(value);
  document["version"] = kSchemaVersion;
  return dump(document, 2);
}

}  // namespace amdahl
