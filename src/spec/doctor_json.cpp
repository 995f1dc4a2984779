#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {

using nlohmann::json;

std::string doctor_to_json(const DoctorOutcome& outcome) {
  json findings = json::array();
  for (const Finding& finding : outcome.findings)
    findings.push_back({{"name", finding.name},
                        {"severity", to_string(finding.severity)},
                        {"where", finding.where},
                        {"measured", finding.measured},
                        {"expected", finding.expected},
                        {"why", finding.why},
                        {"remedy", finding.remedy}});
  json object = json::parse(links_to_json(outcome.machine, outcome.records));
  object["healthy"] = !outcome.failed;
  object["findings"] = findings;
  object["checked"] = outcome.checked;
  object["not_looked_at"] = outcome.unseen;
  return dump(object, 2);
}

}  // namespace amdahl
