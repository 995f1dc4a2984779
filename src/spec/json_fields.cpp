#include "spec/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "amdahl/error.h"
#include "spec/run_folder.h"

namespace amdahl {

using nlohmann::json;

// Maximum length of a value quoted in an error: a damaged file may contain anything.
constexpr size_t kLongestExcerpt = 160;

Fields::Fields(const json& object, std::string origin, std::string where, Cause cause)
    : object_(&object), origin_(std::move(origin)), where_(std::move(where)), cause_(cause) {
  if (!object.is_object())
    throw Error(cause_, fmt::format("{}: {} is not a JSON object", origin_, where_.empty() ? "the document" : where_),
                damage_remedy(cause_));
}

std::string Fields::path(const char* name) const { return where_.empty() ? name : where_ + "." + name; }

void Fields::fail(const char* name, const std::string& problem, const std::string& remedy) const {
  throw Error(cause_,
              fmt::format("{}: field '{}' {}", origin_, printable(path(name), kLongestExcerpt),
                          printable(problem, kLongestExcerpt)),
              remedy.empty() ? damage_remedy(cause_) : remedy);
}

bool Fields::has(const char* name) const { return object_->contains(name); }

const json& Fields::at(const char* name) const {
  const auto found = object_->find(name);
  if (found == object_->end()) fail(name, "is missing", fmt::format("add \"{}\"", name));
  return *found;
}

std::string Fields::text(const char* name) const {
  const json& v = at(name);
  if (!v.is_string()) fail(name, "is not a string");
  return v.get<std::string>();
}

int64_t Fields::integer(const char* name) const {
  const json& v = at(name);
  if (!v.is_number_integer()) fail(name, "is not an integer");
  if (v.is_number_unsigned() && v.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    fail(name, "is too large");
  return v.get<int64_t>();
}

uint64_t Fields::natural(const char* name) const {
  const json& v = at(name);
  if (!v.is_number_unsigned()) fail(name, "is not an integer of at least 0");
  return v.get<uint64_t>();
}

double Fields::number(const char* name) const {
  const json& v = at(name);
  if (!v.is_number()) fail(name, "is not a number");
  const double value = v.get<double>();
  if (!std::isfinite(value)) fail(name, "is not a finite number");  // 1e999 parses as infinity
  return value;
}

int64_t Fields::natural_or(const char* name, int64_t least, int64_t most) const {
  if (!has(name)) return 0;
  const int64_t value = integer(name);
  if (value < least || value > most) fail(name, fmt::format("is {}, not {} to {}", value, least, most));
  return value;
}

double Fields::rate_or_none(const char* name) const {
  constexpr double kMost = 1e12;
  if (!has(name)) return 0;
  const double value = number(name);
  if (!(value > 0 && value <= kMost)) fail(name, fmt::format("is {}, not above 0 and at most {}", value, kMost));
  return value;
}

std::optional<double> Fields::maybe_number(const char* name) const {
  if (!has(name)) return std::nullopt;
  return number(name);
}

bool Fields::boolean(const char* name) const {
  const json& v = at(name);
  if (!v.is_boolean()) fail(name, "is not true or false");
  return v.get<bool>();
}

Fields Fields::object(const char* name) const { return Fields(at(name), origin_, path(name), cause_); }

const json& Fields::array(const char* name) const {
  const json& v = at(name);
  if (!v.is_array()) fail(name, "is not an array");
  return v;
}

Fields Fields::element(const json& array, const char* name, size_t index) const {
  return Fields(array.at(index), origin_, fmt::format("{}[{}]", path(name), index), cause_);
}

std::vector<std::string> Fields::texts(const char* name) const {
  std::vector<std::string> values;
  for (const json& v : array(name)) {
    if (!v.is_string()) fail(name, "holds something that is not a string");
    values.push_back(v.get<std::string>());
  }
  return values;
}

std::map<std::string, std::string> Fields::text_map(const char* name) const {
  const Fields inner = object(name);
  std::map<std::string, std::string> values;
  for (const auto& [key, v] : inner.value().items()) {
    if (!v.is_string()) inner.fail(key.c_str(), "is not a string");
    values[key] = v.get<std::string>();
  }
  return values;
}

void Fields::refuse_unknown(const std::vector<std::string>& known) const {
  for (const auto& [key, v] : object_->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = nearest_name(key, known);
    fail(key.c_str(), "is unknown",
         near.empty() ? fmt::format("one of {}", fmt::join(known, ", ")) : fmt::format("\"{}\"", near));
  }
}

void Fields::require_version() const {
  const int64_t version = integer("version");
  if (version == kSchemaVersion) return;
  throw Error(
      Cause::version_refused,
      fmt::format("{}: schema version {} is not known; this build reads version {}", origin_, version, kSchemaVersion),
      "the amdahl that wrote the file, or a newer one");
}

std::string damage_remedy(Cause cause) {
  return cause == Cause::store_corrupt ? kDamagedLineRemedy : "correct the file";
}

namespace {

/// Rejects a document in which an object has a duplicate key (which value counts is undefined), and one whose parsed
/// values would take many times its size in memory. This is a separate pass: the library's parser callbacks visit all
/// elements of an array again after each object in it.
class DocumentCheck : public nlohmann::json_sax<json> {
 public:
  DocumentCheck(std::string_view origin, Cause cause) : origin_(origin), cause_(cause) {}

  bool null() override { return add_value(); }
  bool boolean(bool) override { return add_value(); }
  bool number_integer(number_integer_t) override { return add_value(); }
  bool number_unsigned(number_unsigned_t) override { return add_value(); }
  bool number_float(number_float_t, const string_t&) override { return add_value(); }
  bool string(string_t&) override { return add_value(); }
  bool binary(binary_t&) override { return add_value(); }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    if (!keys_.back().insert(key).second)
      throw Error(cause_,
                  fmt::format("{}: the key '{}' stands twice in one object", origin_, printable(key, kLongestExcerpt)),
                  cause_ == Cause::store_corrupt ? damage_remedy(cause_) : "one of the two");
    return add_value();
  }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }  // parse() reports it

 private:
  bool add_value() {
    constexpr size_t kMostValues = 4'000'000;  // at about 100 bytes each
    if (++num_values_ > kMostValues) refuse(fmt::format("more than {} keys and values", kMostValues));
    return true;
  }
  bool open() {
    constexpr size_t kDeepest = 100;
    keys_.emplace_back();
    if (keys_.size() > kDeepest) refuse(fmt::format("values within more than {} others", kDeepest));
    return add_value();
  }
  bool close() {
    keys_.pop_back();
    return true;
  }
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(cause_, fmt::format("{}: the document has {}", origin_, what), damage_remedy(cause_));
  }

  std::string_view origin_;
  Cause cause_;
  size_t num_values_ = 0;
  std::vector<std::unordered_set<std::string>> keys_;  // keys of the currently open objects and arrays
};

}  // namespace

json parse_document(std::string_view text, std::string_view origin, Cause cause) {
  try {
    DocumentCheck check(origin, cause);
    json::sax_parse(text, &check);
    return json::parse(text);
  } catch (const json::exception& e) {  // also for numbers beyond the range of double
    // The library's prefix "[json.exception...]" does not help a user.
    std::string detail = e.what();
    if (const size_t end = detail.find("] "); end != std::string::npos) detail = detail.substr(end + 2);
    throw Error(cause, fmt::format("{}: not valid JSON: {}", origin, printable(detail, kLongestExcerpt)),
                damage_remedy(cause));
  }
}

std::string dump(const json& document, int indent) {
  return document.dump(indent, ' ', false, json::error_handler_t::replace);
}

double finite(double value, std::string_view what) {
  if (!std::isfinite(value)) throw Error(Cause::internal, fmt::format("{} is {}, which is never written", what, value));
  return value;
}

json finite_array(const std::vector<double>& values, std::string_view what) {
  json array = json::array();
  for (double v : values) array.push_back(finite(v, what));
  return array;
}

json interval_json(const Interval& interval) {
  return {{"low", finite(interval.low, "an interval")}, {"high", finite(interval.high, "an interval")}};
}

Interval read_interval(const Fields& fields) {
  const Interval interval{fields.number("low"), fields.number("high")};
  if (interval.high < interval.low) fields.fail("high", fmt::format("is {}, below low", interval.high));
  return interval;
}

}  // namespace amdahl
