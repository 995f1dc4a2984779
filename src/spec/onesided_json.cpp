// The choices of `amdahl collectives --onesided`; schema: docs/schema/onesided.schema.json.
#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_visitor.h"

namespace amdahl {
using nlohmann::json;

template <class Visitor>
void visit_fields(Visitor& f, OneSidedChoice::Rule& r) {
  f("decision", r.decision), f("rule", r.rule), f("mean_ratio", r.mean_ratio), f("worst_ratio", r.worst_ratio);
  f("worst_bytes", r.worst_bytes);
}

template <class Visitor>
void visit_fields(Visitor& f, OneSidedChoice& c) {
  f("device_kind", c.device_kind), f("ranks", c.ranks), f("devices", c.devices);
  f.when(true, "emulated", c.emulated);
  f("flagged_bytes", c.flagged_bytes);
  f.when(true, "line_bytes", c.line_bytes);
  f("one_shot_bytes", c.one_shot_bytes);
  f.when(true, "one_sided_bytes", c.one_sided_bytes);
  f.derived("rules", c.rules);
}

namespace {

OneSidedChoice read_choice(const Fields& fields) {
  auto choice = read_fields<OneSidedChoice>(fields);
  if (choice.devices < 1) fields.fail("devices", "is below 1");
  if (choice.flagged_bytes < 0) fields.fail("flagged_bytes", "is negative");
  if (choice.line_bytes < 0) fields.fail("line_bytes", "is negative");
  if (choice.one_shot_bytes < choice.flagged_bytes) fields.fail("one_shot_bytes", "is below flagged_bytes");
  return choice;
}

}  // namespace

std::string choices_to_json(const std::vector<OneSidedChoice>& choices) {
  json array = json::array();
  for (const OneSidedChoice& choice : choices) array.push_back(written(choice));
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
