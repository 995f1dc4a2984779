// Reads and writes the parts of summary.json about one device and about the serial fraction.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

void put_interval(json& object, const char* name, const std::optional<Interval>& interval) {
  if (interval) object[name] = interval_json(*interval);
}

json bound_json(const SpeedupBound& bound) {
  json object{{"whole", key_json(bound.whole)},
              {"half", key_json(bound.half)},
              {"ratio", finite(bound.ratio, "a bound")},
              {"origin", origin_name(Origin::modelled)},
              {"cannot_pay", bound.cannot_pay}};
  put_interval(object, "ci", bound.ci);
  return object;
}

SpeedupBound read_bound(const Fields& f) {
  SpeedupBound bound;
  bound.whole = read_key(f.object("whole"));
  bound.half = read_key(f.object("half"));
  bound.ratio = f.number("ratio");
  bound.ci = read_interval(f, "ci");
  bound.cannot_pay = f.boolean("cannot_pay");
  return bound;
}

template <typename T, typename Read>
std::vector<T> read_all(const Fields& f, const char* name, Read read) {
  std::vector<T> values;
  const json& array = f.array(name);
  for (size_t i = 0; i < array.size(); ++i) values.push_back(read(f.element(array, name, i)));
  return values;
}

SerialTrend read_trend(const Fields& f) {
  const std::string text = f.text("trend");
  for (const SerialTrend trend : {SerialTrend::unclear, SerialTrend::constant, SerialTrend::grows, SerialTrend::falls})
    if (to_string(trend) == text) return trend;
  f.fail("trend", fmt::format("is \"{}\", which is unknown", text));
}

}  // namespace

json one_device_json(const OneDeviceSummary& one) {
  json rows = json::array(), alternatives = json::array();
  for (const OneDeviceRow& row : one.rows) {
    rows.push_back({{"cell", key_json(row.cell)}});
    if (row.launch_share) rows.back()["launch_share"] = finite(*row.launch_share, "a share of launch gaps");
    if (row.two_devices) rows.back()["two_devices_at_most"] = bound_json(*row.two_devices);
  }
  for (const OneDeviceAlternative& a : one.alternatives)
    alternatives.push_back({{"from", key_json(a.from)}, {"to", key_json(a.to)}, {"speed", pair_test_json(a.test)}});
  return {{"rows", rows},
          {"alternatives", alternatives},
          {"fastest", key_json(one.fastest)},
          {"fastest_as_asked", key_json(one.fastest_as_asked)}};
}

OneDeviceSummary read_one_device(const Fields& f) {
  OneDeviceSummary one;
  one.rows = read_all<OneDeviceRow>(f, "rows", [](const Fields& row) {
    OneDeviceRow read{read_key(row.object("cell")), row.maybe_number("launch_share"), {}};
    if (row.has("two_devices_at_most")) read.two_devices = read_bound(row.object("two_devices_at_most"));
    return read;
  });
  one.alternatives = read_all<OneDeviceAlternative>(f, "alternatives", [](const Fields& a) {
    return OneDeviceAlternative{read_key(a.object("from")), read_key(a.object("to")),
                                read_pair_test(a.object("speed"))};
  });
  one.fastest = read_key(f.object("fastest"));
  one.fastest_as_asked = read_key(f.object("fastest_as_asked"));
  return one;
}

json serial_fraction_json(const SerialFraction& fraction) {
  json points = json::array();
  for (const SerialPoint& p : fraction.points) {
    points.push_back({{"devices", p.devices},
                      {"speedup", finite(p.speedup, "a speedup")},
                      {"fraction", finite(p.fraction, "a serial fraction")}});
    put_interval(points.back(), "ci", p.ci);
  }
  json object{{"cell", key_json(fraction.cell)},
              {"points", points},
              {"fitted", finite(fraction.fitted, "a fitted serial fraction")},
              {"growth", finite(fraction.growth, "the growth of a serial fraction")},
              {"trend", to_string(fraction.trend)}};
  put_interval(object, "fitted_ci", fraction.fitted_ci);
  put_interval(object, "growth_ci", fraction.growth_ci);
  return object;
}

SerialFraction read_serial_fraction(const Fields& f) {
  SerialFraction fraction;
  fraction.cell = read_key(f.object("cell"));
  fraction.points = read_all<SerialPoint>(f, "points", [](const Fields& p) {
    return SerialPoint{p.integer("devices"), p.number("speedup"), p.number("fraction"), read_interval(p, "ci")};
  });
  fraction.fitted = f.number("fitted");
  fraction.fitted_ci = read_interval(f, "fitted_ci");
  fraction.growth = f.number("growth");
  fraction.growth_ci = read_interval(f, "growth_ci");
  fraction.trend = read_trend(f);
  return fraction;
}

}  // namespace amdahl
