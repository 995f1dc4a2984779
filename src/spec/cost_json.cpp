// The JSON output of `cost`: docs/schema/cost.schema.json.
#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

constexpr std::string_view kAnswers[] = {"never", "always", "at"};

void put_known(json& object, const char* name, const std::optional<double>& value) {
  if (value) object[name] = finite(*value, name);
}

void put_known(json& object, const char* name, const std::optional<Interval>& interval) {
  if (interval) object[name] = interval_json(*interval);
}

json gain_json(const CostGain& gain) {
  json object{{"baseline", gain.baseline},
              {"speedup", finite(gain.speedup, "a speedup")},
              {"payoff", to_string(gain.payoff)},
              {"never_paid_back", gain.never_paid_back}};
  put_known(object, "speedup_ci", gain.speedup_ci);
  put_known(object, "break_even_speedup", gain.break_even_speedup);
  put_known(object, "break_even_price_per_hour", gain.break_even_price);
  put_known(object, "break_even_price_per_hour_ci", gain.break_even_price_ci);
  put_known(object, "further_price_per_hour", gain.further_price);
  put_known(object, "further_purchase", gain.further_invest);
  put_known(object, "payback_months", gain.payback_months);
  return object;
}

json row_json(const CostRow& row) {
  json object{{"run", row.run},
              {"work", row.work},
              {"configuration", row.configuration},
              {"size_name", row.size_name},
              {"size", row.size},
              {"devices", row.devices},
              {"device_names", row.device_names},
              {"device_kind", row.device_kind},
              {"origin", origin_name(row.origin)},
              {"unit", row.unit},
              {"n", row.n},
              {"throughput_per_s", finite(row.throughput, "throughput")},
              {"work_per_hour", finite(row.work_per_hour, "work per hour")},
              {"owned", row.owned}};
  if (row.num_parameters > 0) object["num_parameters"] = row.num_parameters;
  put_known(object, "throughput_per_s_ci", row.throughput_ci);
  put_known(object, "price_per_hour", row.hourly_price);
  put_known(object, "work_per_price", row.work_per_price);
  put_known(object, "work_per_price_ci", row.work_per_price_ci);
  put_known(object, "joule_per_work", row.joule_per_work);
  if (row.gain) object["gain"] = gain_json(*row.gain);
  return object;
}

json break_even_json(const BreakEven& found) {
  json object{{"over", found.size_name},
              {"work", found.work},
              {"configuration", found.configuration},
              {"devices", found.devices},
              {"by", found.by_price ? "price" : "time"},
              {"at_speedup", finite(found.at_speedup, "a threshold")},
              {"answer", kAnswers[static_cast<size_t>(found.answer)]},
              {"has_interval", found.has_interval},
              {"measured", interval_json({found.measured_low, found.measured_high})},
              {"num_sizes", found.num_sizes}};
  put_known(object, "value", found.value);
  if (found.value) object["between"] = interval_json({found.below, found.above});
  put_known(object, "until", found.until);
  put_known(object, "low", found.low);
  put_known(object, "high", found.high);
  return object;
}

json alternative_json(const CostAlternative& alternative) {
  json object{{"name", alternative.name},
              {"baseline", alternative.baseline},
              {"origin", origin_name(Origin::modelled)},
              {"purchase_price", finite(alternative.purchase_price, "a price")}};
  put_known(object, "assumed_gain", alternative.gain);
  put_known(object, "work_per_hour", alternative.work_per_hour);
  put_known(object, "price_per_hour", alternative.hourly_price);
  put_known(object, "work_per_price", alternative.work_per_price);
  if (!alternative.why_absent.empty()) object["why_absent"] = alternative.why_absent;
  if (!alternative.note.empty()) object["note"] = alternative.note;
  return object;
}

}  // namespace

std::string cost_to_json(const CostReport& report, const std::string& verdict) {
  json rows = json::array(), break_evens = json::array(), alternatives = json::array();
  for (const CostRow& row : report.rows) rows.push_back(row_json(row));
  for (const BreakEven& found : report.break_evens) break_evens.push_back(break_even_json(found));
  for (const CostAlternative& alternative : report.alternatives) alternatives.push_back(alternative_json(alternative));
  json prices{{"file", report.prices}, {"currency", report.currency}};
  if (!report.as_of.empty()) prices["as_of"] = report.as_of;
  return dump({{"version", kSchemaVersion},
               {"verdict", verdict},
               {"prices", prices},
               {"rows", rows},
               {"break_evens", break_evens},
               {"alternatives", alternatives},
               {"notes", report.notes}},
              2);
}

}  // namespace amdahl
