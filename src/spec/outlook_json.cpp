// The JSON output of `amdahl advise` for assumed devices; schema: docs/schema/outlook.schema.json.
#include <nlohmann/json.hpp>

#include "amdahl/scaling.h"
#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

json link_json(const LinkModel& link) {
  json object{{"name", link.name},
              {"gbps", finite(link.gbps, "a link's rate")},
              {"ring_efficiency", finite(link.ring_efficiency, "a link's efficiency")},
              {"base_us", finite(link.base_us, "a link's latency")},
              {"hop_us", finite(link.hop_us, "a link's latency")},
              {"rate_origin", origin_name(link.rate_origin)},
              {"latency_origin", origin_name(link.latency_origin)},
              {"rate_source", link.rate_source},
              {"latency_source", link.latency_source}};
  if (link.total_gbps > 0) object["total_gbps"] = finite(link.total_gbps, "a link's rate");
  return object;
}

json prediction_json(const ScalingPrediction& p) {
  json terms = json::array(), measured = json::array();
  for (const PredictedTerm& term : p.terms)
    terms.push_back({{"name", term.name},
                     {"us", finite(term.us, "a predicted term")},
                     {"origin", origin_name(term.origin)},
                     {"source", term.source}});
  for (const MeasuredStep& m : p.measured)
    measured.push_back({{"strategy", m.strategy},
                        {"step_us", finite(m.step_us, "a measured step")},
                        {"speedup", finite(m.speedup, "a measured speedup")},
                        {"n", m.n},
                        {"predicted_over_measured", finite(p.step_us / m.step_us, "an error")}});
  json object{{"single", key_json(p.single)},
              {"single_us", finite(p.single_us, "a step time")},
              {"n_single", p.n_single},
              {"devices", p.devices},
              {"origin", origin_name(Origin::modelled)},
              {"terms", terms},
              {"step_us", finite(p.step_us, "a predicted step")},
              {"speedup", finite(p.speedup, "a predicted speedup")},
              {"recommendation", to_string(p.recommendation)},
              {"measured", measured}};
  if (p.ci) object["ci"] = interval_json(*p.ci);
  return object;
}

}  // namespace

std::string outlook_to_json(const ScalingOutlook& outlook) {
  json predictions = json::array();
  for (const ScalingPrediction& p : outlook.predictions) predictions.push_back(prediction_json(p));
  return dump({{"version", kSchemaVersion},
               {"device_kind", outlook.device_kind},
               {"link", link_json(outlook.link)},
               {"overlap", outlook.overlap},
               {"predictions", predictions},
               {"notes", outlook.notes}},
              2);
}

}  // namespace amdahl
