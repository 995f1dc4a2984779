// Reading doctor.json.
#include <nlohmann/json.hpp>

#include "spec/doctor_file.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

Finding::Severity read_severity(const Fields& fields) {
  const std::string name = fields.text("severity");
  for (const auto severity : {Finding::Severity::notice, Finding::Severity::warning, Finding::Severity::fault})
    if (to_string(severity) == name) return severity;
  fields.fail("severity", "is '" + name + "', not notice, warning or fault");
}

Finding read_finding(const Fields& fields) {
  Finding finding;
  finding.name = fields.text("name");
  finding.severity = read_severity(fields);
  finding.where = fields.text("where");
  finding.measured = fields.text("measured");
  finding.expected = fields.text("expected");
  finding.why = fields.text("why");
  finding.remedy = fields.text("remedy");
  return finding;
}

}  // namespace

DoctorOutcome doctor_from_json(std::string_view text, std::string_view origin) {
  const json document = parse_document(text, origin, Cause::store_corrupt);
  const Fields fields(document, std::string(origin), "", Cause::store_corrupt);
  fields.require_version();
  DoctorOutcome outcome;
  const json& findings = fields.array("findings");
  for (size_t i = 0; i < findings.size(); ++i)
    outcome.findings.push_back(read_finding(fields.element(findings, "findings", i)));
  outcome.checked = fields.texts("checked");
  outcome.unseen = fields.texts("not_looked_at");
  outcome.failed = !fields.boolean("healthy");
  return outcome;
}

}  // namespace amdahl
