// The choices of `amdahl onesided`; schema: docs/schema/onesided.schema.json.
#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

json choice_json(const OneSidedChoice& choice) {
  json rules = json::array();
  for (const OneSidedChoice::Rule& rule : choice.rules)
    rules.push_back({{"decision", rule.decision},
                     {"rule", rule.rule},
                     {"mean_ratio", finite(rule.mean_ratio, "a rule's ratio")},
                     {"worst_ratio", finite(rule.worst_ratio, "a rule's ratio")},
                     {"worst_bytes", rule.worst_bytes}});
  return {{"device_kind", choice.device_kind},
          {"ranks", choice.ranks},
          {"devices", choice.devices},
          {"emulated", choice.emulated},
          {"flagged_bytes", choice.flagged_bytes},
          {"line_bytes", choice.line_bytes},
          {"one_shot_bytes", choice.one_shot_bytes},
          {"one_sided_bytes", choice.one_sided_bytes},
          {"rules", rules}};
}

OneSidedChoice read_choice(const Fields& fields) {
  OneSidedChoice choice;
  choice.device_kind = fields.text("device_kind");
  choice.ranks = fields.text("ranks");
  choice.devices = static_cast<int>(fields.integer("devices"));
  choice.emulated = fields.boolean_or("emulated", false);
  choice.flagged_bytes = fields.integer("flagged_bytes");
  choice.line_bytes = fields.integer_or("line_bytes", 0);
  choice.one_shot_bytes = fields.integer("one_shot_bytes");
  choice.one_sided_bytes = fields.integer_or("one_sided_bytes", -1);
  if (choice.devices < 1) fields.fail("devices", "is below 1");
  if (choice.flagged_bytes < 0) fields.fail("flagged_bytes", "is negative");
  if (choice.line_bytes < 0) fields.fail("line_bytes", "is negative");
  if (choice.one_shot_bytes < choice.flagged_bytes) fields.fail("one_shot_bytes", "is below flagged_bytes");
  return choice;
}

}  // namespace

std::string choices_to_json(const std::vector<OneSidedChoice>& choices) {
  json array = json::array();
  for (const OneSidedChoice& choice : choices) array.push_back(choice_json(choice));
  return dump({{"version", kSchemaVersion}, {"choices", array}}, 2);
}

std::vector<OneSidedChoice> choices_from_json(std::string_view text, std::string_view origin) {
  const json document = parse_document(text, origin, Cause::usage);
  const Fields fields(document, std::string(origin), "", Cause::usage);
  fields.require_version();
  std::vector<OneSidedChoice> choices;
  const json& array = fields.array("choices");
  for (size_t i = 0; i < array.size(); ++i) choices.push_back(read_choice(fields.element(array, "choices", i)));
  return choices;
}

}  // namespace amdahl
