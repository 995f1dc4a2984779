// Serialises calibrations; schema: the member calibrations of docs/schema/machine.schema.json.
#include "spec/calibration_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_fields.h"
#include "spec/plan_json.h"

namespace amdahl {
namespace {

using nlohmann::json;

Calibration read_calibration(const Fields& fields) {
  Calibration calibration;
  calibration.host = fields.text_or("host", "");
  calibration.device_kind = fields.text("device_kind");
  calibration.device_name = fields.text_or("device_name", "");
  calibration.math = fields.text("math");
  calibration.software = fields.text("software");
  calibration.memory_bytes = fields.natural_or("memory_bytes", 0);
  calibration.seconds = fields.number_or("seconds", 0);
  calibration.interval_factor = fields.number("interval_factor");
  constexpr double kWidest = 100;
  if (!(calibration.interval_factor > 0 && calibration.interval_factor <= kWidest))
    fields.fail("interval_factor", fmt::format("is not above 0 and at most {}", kWidest));
  const json& constants = fields.array("constants");
  for (size_t i = 0; i < constants.size(); ++i) {
    const Fields one = fields.element(constants, "constants", i);
    CalibrationConstant constant{one.text("name"), one.number("value"), one.text("unit"), ConstantOrigin::assumed,
                                 one.text("source")};
    const std::string origin = one.text("origin");
    bool known = false;
    for (const ConstantOrigin o : {ConstantOrigin::measured, ConstantOrigin::fitted, ConstantOrigin::assumed})
      if (to_string(o) == origin) constant.origin = o, known = true;
    if (!known) one.fail("origin", "is \"" + origin + "\"", "measured, fitted or assumed");
    if (!(constant.value >= 0)) one.fail("value", "is negative");
    calibration.constants.push_back(std::move(constant));
  }
  return calibration;
}

bool same_subject(const Calibration& a, const Calibration& b) {
  return a.device_kind == b.device_kind && a.device_name == b.device_name && a.math == b.math &&
         a.software == b.software;
}

}  // namespace

std::vector<Calibration> calibrations_from_json(std::string_view machine_file, std::string_view origin) {
  const json document = parse_document(machine_file, origin, Cause::store_corrupt);
  const Fields fields(document, std::string(origin), "", Cause::store_corrupt);
  std::vector<Calibration> calibrations;
  if (!fields.has("calibrations")) return calibrations;
  const json& array = fields.array("calibrations");
  for (size_t i = 0; i < array.size(); ++i)
    calibrations.push_back(read_calibration(fields.element(array, "calibrations", i)));
  return calibrations;
}

std::string with_calibrations(std::string_view machine_file, const std::vector<Calibration>& calibrations) {
  json document = parse_document(machine_file, "machine", Cause::internal);
  std::vector<Calibration> all = calibrations_from_json(machine_file, "machine");
  for (const Calibration& one : calibrations) {
    std::erase_if(all, [&](const Calibration& old) { return same_subject(old, one); });
    all.push_back(one);
  }
  if (all.empty()) return std::string(machine_file);
  document["calibrations"] = json::array();
  for (const Calibration& one : all) document["calibrations"].push_back(json::parse(calibration_to_json(one)));
  return dump(document, 2);
}

}  // namespace amdahl
