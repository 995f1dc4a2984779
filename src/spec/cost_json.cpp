// The JSON output of `cost`: docs/schema/cost.schema.json.
#include <nlohmann/json.hpp>

#include "spec/json.h"
#include "spec/json_visitor.h"

namespace amdahl {

using nlohmann::json;

template <class Visitor>
void visit_fields(Visitor& f, CostGain& g) {
  f("baseline", g.baseline), f("speedup", g.speedup), f("speedup_ci", g.speedup_ci), f("payoff", g.payoff);
  f("recommendation", g.recommendation);
  f("break_even_speedup", g.break_even_speedup), f("break_even_price_per_hour", g.break_even_price);
  f("break_even_price_per_hour_ci", g.break_even_price_ci), f("further_price_per_hour", g.further_price);
  f("further_purchase", g.further_invest), f("never_paid_back", g.never_paid_back);
  f("payback_months", g.payback_months);
}

template <class Visitor>
void visit_fields(Visitor& f, CostRow& r) {
  f("run", r.run), f("work", r.work), f("configuration", r.configuration), f("size_name", r.size_name);
  f("size", r.size), f("devices", r.devices), f("device_names", r.device_names), f("device_kind", r.device_kind);
  f("origin", r.origin), f("unit", r.unit), f("n", r.n), f("owned", r.owned);
  f.when(r.num_parameters > 0, "num_parameters", r.num_parameters);
  f("throughput_per_s", r.throughput), f("throughput_per_s_ci", r.throughput_ci);
  f("work_per_hour", r.work_per_hour), f("price_per_hour", r.hourly_price);
  f("work_per_price", r.work_per_price), f("work_per_price_ci", r.work_per_price_ci);
  f("joule_per_work", r.joule_per_work), f("gain", r.gain);
}

template <class Visitor>
void visit_fields(Visitor& f, BreakEven& b) {
  constexpr std::string_view kAnswers[] = {"never", "always", "at"};
  f("at_speedup", b.at_speedup), f.derived("answer", kAnswers[static_cast<size_t>(b.answer)]);
  f("has_interval", b.has_interval), f("num_sizes", b.num_sizes);
  f.derived("measured", Interval{b.measured_low, b.measured_high});
  f("value", b.value), f("until", b.until), f("low", b.low), f("high", b.high);
  f.when(b.at_jump, "at_jump", b.at_jump);
  if (b.value) f.derived("between", Interval{b.below, b.above});
}

template <class Visitor>
void visit_fields(Visitor& f, SizeCrossover& c) {
  f("from", c.from), f("largest", c.largest);
  f.when(c.below > 0, "below", c.below);
}

template <class Visitor>
void visit_fields(Visitor& f, CostBreakEven& b) {
  f("over", b.size_name), f("work", b.work), f("configuration", b.configuration), f("devices", b.devices);
  f("largest", b.largest), f("faster", b.faster), f("by_price", b.by_price);
}

template <class Visitor>
void visit_fields(Visitor& f, CostAlternative& a) {
  f("name", a.name), f("baseline", a.baseline), f.derived("origin", Origin::modelled);
  f("purchase_price", a.purchase_price), f("assumed_gain", a.gain), f("work_per_hour", a.work_per_hour);
  f("price_per_hour", a.hourly_price), f("work_per_price", a.work_per_price);
  f.when(!a.why_absent.empty(), "why_absent", a.why_absent);
  f.when(!a.note.empty(), "note", a.note);
}

template <class Visitor>
void visit_fields(Visitor& f, CostReport& r) {
  f("rows", r.rows), f("break_evens", r.break_evens), f("alternatives", r.alternatives), f("notes", r.notes);
}

std::string cost_to_json(const CostReport& report, const std::string& verdict) {
  json document = written(report);
  document["version"] = kSchemaVersion;
  document["verdict"] = verdict;
  document["prices"] = {{"file", report.prices}, {"currency", report.currency}};
  if (!report.as_of.empty()) document["prices"]["as_of"] = report.as_of;
  return dump(document, 2);
}

}  // namespace amdahl
