// What `compare --json` and `advise --json` print.
#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {

using nlohmann::json;

std::string comparison_to_json(const RunComparison& comparison) {
  json cells = json::array();
  for (const CellComparison& cell : comparison.cells)
    cells.push_back({{"kind", cell.kind},
                     {"axes", axes_json(cell.axes)},
                     {"series", cell.series},
                     {"unit", cell.unit},
                     {"a", sample_summary_json(cell.a)},
                     {"b", sample_summary_json(cell.b)},
                     {"a_over_b_speed", pair_test_json(cell.test)}});
  return dump({{"version", kSchemaVersion},
               {"a", comparison.name_a},
               {"b", comparison.name_b},
               {"device_kind", comparison.device_kind},
               {"series", comparison.series},
               {"unit", comparison.unit},
               {"cells", cells},
               {"only_a", comparison.only_a},
               {"only_b", comparison.only_b},
               {"notes", comparison.notes}},
              2);
}

std::string advice_to_json(const Advice& advice) {
  json object{{"version", kSchemaVersion},
              {"decision", advice.decision},
              {"reason", advice.reason},
              {"evidence", advice.evidence},
              {"modes_to_measure", advice.modes_to_measure}};
  if (!advice.command.empty()) object["command"] = advice.command;
  return dump(object, 2);
}

}  // namespace amdahl
