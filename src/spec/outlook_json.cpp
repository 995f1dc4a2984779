// The JSON output of `amdahl advise` for assumed devices; schema: docs/schema/outlook.schema.json.
#include "amdahl/comparison.h"
#include "spec/json.h"
#include "spec/json_visitor.h"

namespace amdahl {

template <class Visitor>
void visit_fields(Visitor& f, LinkModel& l) {
  f("name", l.name), f("gbps", l.gbps), f("ring_efficiency", l.ring_efficiency);
  f("base_us", l.base_us), f("hop_us", l.hop_us), f("rate_origin", l.rate_origin);
  f("latency_origin", l.latency_origin), f("rate_source", l.rate_source), f("latency_source", l.latency_source);
  f.when(l.total_gbps > 0, "total_gbps", l.total_gbps);
}

template <class Visitor>
void visit_fields(Visitor& f, PredictedTerm& t) {
  f("name", t.name), f("us", t.us), f("origin", t.origin), f("source", t.source);
}

template <class Visitor>
void visit_fields(Visitor& f, MeasuredStep& m) {
  f("strategy", m.strategy), f("step_us", m.step_us), f("speedup", m.speedup), f("n", m.n);
}

template <class Visitor>
void visit_fields(Visitor& f, ScalingPrediction& p) {
  f("single", p.single), f("single_us", p.single_us), f("n_single", p.n_single), f("devices", p.devices);
  f.derived("origin", Origin::modelled), f("terms", p.terms), f("step_us", p.step_us), f("speedup", p.speedup);
  f("ci", p.ci), f("recommendation", p.recommendation), f("measured", p.measured);
}

template <class Visitor>
void visit_fields(Visitor& f, ScalingOutlook& o) {
  f("device_kind", o.device_kind), f("link", o.link), f("overlap", o.overlap), f("predictions", o.predictions);
  f("notes", o.notes);
}

std::string outlook_to_json(const ScalingOutlook& outlook) {
  nlohmann::json document = written(outlook);
  for (size_t i = 0; i < outlook.predictions.size(); ++i) {
    const ScalingPrediction& p = outlook.predictions[i];
    for (size_t k = 0; k < p.measured.size(); ++k)
      document["predictions"][i]["measured"][k]["predicted_over_measured"] =
          finite(p.step_us / p.measured[k].step_us, "an error");
  }
  document["version"] = kSchemaVersion;
  return dump(document, 2);
}

}  // namespace amdahl
