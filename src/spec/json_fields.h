// Reads and writes single JSON fields; errors name the document, the field and the remedy. Private to this folder.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// A view of one JSON object. Every failed read throws Error{cause} with the message "ORIGIN: field 'PATH' ...".
class Fields {
 public:
  /// `where`: path of this object inside its document, empty for the document itself.
  Fields(const nlohmann::json& object, std::string origin, std::string where, Cause cause);

  bool has(const char* name) const;
  std::string text(const char* name) const;
  int64_t integer(const char* name) const;
  uint64_t natural(const char* name) const;
  double number(const char* name) const;
  bool boolean(const char* name) const;
  Fields object(const char* name) const;
  const nlohmann::json& array(const char* name) const;
  /// Element `index` of an array that `array` returned, as an object.
  Fields element(const nlohmann::json& array, const char* name, size_t index) const;
  std::vector<std::string> texts(const char* name) const;
  std::map<std::string, std::string> text_map(const char* name) const;

  std::string text_or(const char* name, const std::string& fallback) const { return has(name) ? text(name) : fallback; }
  int64_t integer_or(const char* name, int64_t fallback) const { return has(name) ? integer(name) : fallback; }
  /// An integer of `least` to `most`; 0 where it is absent.
  int64_t natural_or(const char* name, int64_t least, int64_t most = INT64_MAX) const;
  int count_or_none(const char* name, int least) const { return static_cast<int>(natural_or(name, least, INT32_MAX)); }
  /// A positive number; 0 where it is absent.
  double rate_or_none(const char* name) const;
  double number_or(const char* name, double fallback) const { return has(name) ? number(name) : fallback; }
  bool boolean_or(const char* name, bool fallback) const { return has(name) ? boolean(name) : fallback; }
  std::optional<double> maybe_number(const char* name) const;

  /// Throws for a key that is not in `known`, with the nearest known name.
  void refuse_unknown(const std::vector<std::string>& known) const;
  /// Throws Error{version_refused} unless `version` is kSchemaVersion.
  void require_version() const;
  [[noreturn]] void fail(const char* name, const std::string& problem, const std::string& remedy = {}) const;
  const nlohmann::json& value() const { return *object_; }

 private:
  const nlohmann::json& at(const char* name) const;
  std::string path(const char* name) const;

  const nlohmann::json* object_;  // owned by the caller, outlives this
  std::string origin_;
  std::string where_;
  Cause cause_;
};

/// The remedy text for a document that cannot be parsed or has wrong fields.
std::string damage_remedy(Cause cause);
/// Parses a document; Error{cause} with line and column when it is not valid JSON.
nlohmann::json parse_document(std::string_view text, std::string_view origin, Cause cause);
/// Serialises a document; invalid UTF-8 becomes U+FFFD. indent -1: one line.
std::string dump(const nlohmann::json& document, int indent);
/// Returns `value`; Error{internal} naming `what` when it is NaN or infinite.
double finite(double value, std::string_view what);
/// An array of numbers; Error{internal} when one is NaN or infinite.
nlohmann::json finite_array(const std::vector<double>& values, std::string_view what);

nlohmann::json axes_json(const std::map<std::string, AxisValue>& axes);
nlohmann::json status_json(const Status& status);
Status read_status(const Fields& fields);
std::string_view origin_name(Origin origin);
Origin read_origin(const Fields& fields);
nlohmann::json provenance_json(const Provenance& provenance);
Provenance read_provenance(const Fields& fields);
/// Approximate memory of one Provenance in bytes.
size_t num_bytes(const Provenance& provenance);
/// Error{cause} when the provenances of all records of `origin` together exceed the limit: each record holds its own
/// copy.
void require_provenance(size_t total_bytes, const std::string& origin, Cause cause);
/// A Record without its provenance.
nlohmann::json record_json(const Record& record);
Record read_record(const Fields& fields, Provenance provenance);
nlohmann::json key_json(const CellKey& key);
CellKey read_key(const Fields& fields);
nlohmann::json sample_summary_json(const SampleSummary& summary);
nlohmann::json pair_test_json(const PairTest& test);
nlohmann::json interval_json(const Interval& interval);
/// Fails where the end lies below the start.
Interval read_interval(const Fields& fields);

}  // namespace amdahl
