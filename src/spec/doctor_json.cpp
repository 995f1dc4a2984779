// Reads and writes doctor.json.
#include <nlohmann/json.hpp>

#include "spec/doctor_file.h"
#include "spec/json.h"
#include "spec/json_visitor.h"

namespace amdahl {

using nlohmann::json;

template <class Visitor>
void visit_fields(Visitor& f, Finding& x) {
  f("name", x.name), f("severity", x.severity), f("where", x.where), f("measured", x.measured);
  f("expected", x.expected), f("why", x.why), f("remedy", x.remedy);
}

template <class Visitor>
void visit_fields(Visitor& f, DoctorOutcome& o) {
  bool healthy = !o.failed;
  f("findings", o.findings), f("checked", o.checked), f("not_looked_at", o.unseen), f("healthy", healthy);
  o.failed = !healthy;
}

std::string doctor_to_json(const DoctorOutcome& outcome) {
  json object = json::parse(links_to_json(outcome.machine, outcome.records));
  object.update(written(outcome));
  return dump(object, 2);
}

DoctorOutcome doctor_from_json(std::string_view text, std::string_view origin) {
  const json document = parse_document(text, origin, Cause::store_corrupt);
  const Fields fields(document, std::string(origin), "", Cause::store_corrupt);
  fields.require_version();
  return read_fields<DoctorOutcome>(fields);
}

}  // namespace amdahl
