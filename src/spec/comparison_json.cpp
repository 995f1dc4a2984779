// The JSON output of `compare`, `bench` and `advise`.
#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {

using nlohmann::json;

namespace {

/// Speed of the candidate relative to the baseline.
json speed_json(const PairTest& a_over_b) {
  json object{{"ratio", finite(1 / a_over_b.ratio, "a ratio")}};
  if (a_over_b.ci && a_over_b.ci->low > 0) object["ci"] = interval_json({1 / a_over_b.ci->high, 1 / a_over_b.ci->low});
  const Verdict verdict = a_over_b.verdict == Verdict::faster   ? Verdict::slower
                          : a_over_b.verdict == Verdict::slower ? Verdict::faster
                                                                : a_over_b.verdict;
  object["verdict"] = to_string(verdict);
  return object;
}

json pair_json(const RunComparison& comparison) {
  json cells = json::array();
  for (const CellComparison& cell : comparison.cells) {
    cells.push_back({{"kind", cell.kind},
                     {"axes", axes_json(cell.axes)},
                     {"series", cell.series},
                     {"unit", cell.unit},
                     {"origin", origin_name(cell.origin)},
                     {"a", sample_summary_json(cell.a)},
                     {"b", sample_summary_json(cell.b)},
                     {"a_over_b_speed", pair_test_json(cell.test)},
                     {"b_over_a_speed", speed_json(cell.test)}});
    if (cell.model_flop_share_a) cells.back()["model_flop_share_a"] = *cell.model_flop_share_a;
    if (cell.model_flop_share_b) cells.back()["model_flop_share_b"] = *cell.model_flop_share_b;
  }
  return {{"b", comparison.name_b},
          {"device_kind", comparison.device_kind},
          {"series", comparison.series},
          {"unit", comparison.unit},
          {"cells", cells},
          {"only_a", comparison.only_a},
          {"only_b", comparison.only_b},
          {"notes", comparison.notes}};
}

}  // namespace

std::string comparison_to_json(const RunsComparison& comparison, const std::string& verdict) {
  json document = pair_json(comparison.against.front());
  document["version"] = kSchemaVersion;
  document["a"] = comparison.against.front().name_a;
  document["verdict"] = verdict;
  for (size_t i = 1; i < comparison.against.size(); ++i) document["others"].push_back(pair_json(comparison.against[i]));
  return dump(document, 2);
}

std::string bench_to_json(const BenchOutcome& outcome, const std::string& verdict) {
  json commands = json::array();
  for (const BenchedCommand& command : outcome.commands) {
    commands.push_back({{"name", command.name},
                        {"time_us", sample_summary_json(command.time)},
                        {"user_us", command.user_us},
                        {"system_us", command.system_us},
                        {"peak_bytes", command.peak_bytes},
                        {"failed", command.failed}});
    if (command.against_first) commands.back()["against_first"] = pair_test_json(*command.against_first);
  }
  json document{{"version", kSchemaVersion},
                {"verdict", verdict},
                {"commands", commands},
                {"records", json::parse(records_to_json(outcome.records)).at("records")}};
  return dump(document, 2);
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
