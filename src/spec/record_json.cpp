// Serialises records and their provenance.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/limited_devices.h"
#include "spec/json.h"
#include "spec/json_fields.h"

namespace amdahl {
namespace {

using nlohmann::json;

constexpr std::string_view kOriginNames[] = {"measured", "emulated", "modelled"};
constexpr std::string_view kStatusNames[] = {"ok", "waived", "failed"};

AxisValue read_axis(const Fields& axes, const std::string& name, const json& v) {
  if (v.is_boolean()) return v.get<bool>();
  if (v.is_string()) return v.get<std::string>();
  if (v.is_number_integer()) return axes.integer(name.c_str());
  if (v.is_number()) return axes.number(name.c_str());
  axes.fail(name.c_str(), "is neither number, string nor true/false");
}

// Limit beyond any measurement, with a finite square: statistics of damaged samples stay finite.
constexpr double kLargestSample = 1e100;

Series read_series(const Fields& fields) {
  Series series{fields.text("name"), fields.text("unit"), {}};
  for (const json& v : fields.array("samples")) {
    if (!v.is_number()) fields.fail("samples", "holds something that is not a number");
    const double sample = v.get<double>();
    if (!std::isfinite(sample)) fields.fail("samples", "holds a number that is not finite");
    if (std::abs(sample) > kLargestSample)
      fields.fail("samples", fmt::format("holds {}: nothing measures that", sample));
    series.samples.push_back(sample);
  }
  return series;
}

}  // namespace

json axes_json(const std::map<std::string, AxisValue>& axes) {
  json object = json::object();
  for (const auto& [name, value] : axes)
    std::visit(
        [&, &key = name](const auto& v) {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, double>) finite(v, "axis " + key);
          object[key] = v;
        },
        value);
  return object;
}

json status_json(const Status& status) {
  json object{{"kind", kStatusNames[static_cast<size_t>(status.kind)]}};
  if (status.kind != Status::Kind::ok || !status.reason.empty()) object["reason"] = status.reason;
  return object;
}

Status read_status(const Fields& fields) {
  const std::string name = fields.text("kind");
  for (size_t i = 0; i < std::size(kStatusNames); ++i)
    if (kStatusNames[i] == name) return {static_cast<Status::Kind>(i), fields.text_or("reason", "")};
  fields.fail("kind", fmt::format("is \"{}\"", name), "\"ok\", \"waived\" or \"failed\"");
}

std::string_view origin_name(Origin origin) { return kOriginNames[static_cast<size_t>(origin)]; }

Origin read_origin(const Fields& fields) {
  const std::string name = fields.text("origin");
  for (size_t i = 0; i < std::size(kOriginNames); ++i)
    if (kOriginNames[i] == name) return static_cast<Origin>(i);
  fields.fail("origin", fmt::format("is \"{}\"", name), "\"measured\", \"emulated\" or \"modelled\"");
}

json provenance_json(const Provenance& p) {
  return {{"tool_version", p.tool_version},
          {"commit", p.commit},
          {"command_line", p.command_line},
          {"start_time", p.start_time},
          {"host", p.host},
          {"device_kind", p.device_kind},
          {"seed", p.seed},
          {"facts", p.facts}};
}

Provenance read_provenance(const Fields& fields) {
  Provenance p;
  p.tool_version = fields.text("tool_version");
  p.commit = fields.text("commit");
  p.command_line = fields.text("command_line");
  p.start_time = fields.text("start_time");
  p.host = fields.text("host");
  p.device_kind = fields.text("device_kind");
  p.seed = fields.natural("seed");
  p.facts = fields.text_map("facts");
  name_limited_devices(p);
  return p;
}

size_t num_bytes(const Provenance& provenance) {
  constexpr size_t kNode = 96;  // bytes of a map node with two short strings
  size_t bytes = sizeof(Provenance);
  for (const std::string* text : {&provenance.tool_version, &provenance.commit, &provenance.command_line,
                                  &provenance.start_time, &provenance.host, &provenance.device_kind})
    bytes += text->size();
  for (const auto& [name, value] : provenance.facts) bytes += kNode + name.size() + value.size();
  return bytes;
}

void require_provenance(size_t total_bytes, const std::string& origin, Cause cause) {
  constexpr size_t kMostBytes = size_t{400} << 20;
  if (total_bytes > kMostBytes)
    throw Error(
        cause,
        fmt::format("{}: its records and what is said of their origin take over {} MiB", origin, kMostBytes >> 20),
        "fewer records in a file");
}

json record_json(const Record& record) {
  json series = json::array();
  for (const Series& s : record.series)
    series.push_back({{"name", s.name}, {"unit", s.unit}, {"samples", finite_array(s.samples, "series " + s.name)}});
  return {{"kind", record.kind},
          {"axes", axes_json(record.axes)},
          {"status", status_json(record.status)},
          {"origin", origin_name(record.origin)},
          {"series", series}};
}

Record read_record(const Fields& fields, Provenance provenance) {
  Record record;
  record.provenance = std::move(provenance);
  record.kind = fields.text("kind");
  const Fields axes = fields.object("axes");
  for (const auto& [name, v] : axes.value().items()) record.axes[name] = read_axis(axes, name, v);
  record.status = read_status(fields.object("status"));
  record.origin = read_origin(fields);
  if (record.origin == Origin::measured) record.origin = origin_of_devices(record.provenance);
  const json& series = fields.array("series");
  for (size_t i = 0; i < series.size(); ++i) record.series.push_back(read_series(fields.element(series, "series", i)));
  return record;
}

std::string record_to_json(const Record& record) {
  json object = record_json(record);
  object["provenance"] = provenance_json(record.provenance);
  return dump(object, -1);
}

Record record_from_json(std::string_view text, std::string_view origin) {
  const json document = parse_document(text, origin, Cause::store_corrupt);
  const Fields fields(document, std::string(origin), "", Cause::store_corrupt);
  return read_record(fields, read_provenance(fields.object("provenance")));
}

std::string records_to_json(const std::vector<Record>& records) {
  json array = json::array();
  for (const Record& record : records) {
    json object = record_json(record);
    object["provenance"] = provenance_json(record.provenance);
    array.push_back(object);
  }
  return dump({{"version", kSchemaVersion}, {"records", array}}, 2);
}

}  // namespace amdahl
