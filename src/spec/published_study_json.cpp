// Converts benchmark_MODEL_MODE_gpu.json of the published training study to Records of kind "study-run", one per run.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "spec/peer_json.h"

namespace amdahl {
namespace {

using nlohmann::json;

constexpr int64_t kStudyDevices = 2;  // the published study used two; the file says only "multi_gpu"
constexpr const char* kStudyRemedy = "the JSON that the study's benchmark wrote to the end";

/// Accepts numbers that were written as strings.
double loose_number(const Fields& fields, const char* name) {
  if (!fields.has(name) || !fields.value().at(name).is_string()) return fields.number(name);
  const std::string text = fields.text(name);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value))
    fields.fail(name, "is text that is no number", kStudyRemedy);
  return value;
}

int64_t loose_count(const Fields& fields, const char* name) {
  constexpr double kLargest = 1e15;  // exact in a double
  const double value = loose_number(fields, name);
  if (!(value >= 1 && value <= kLargest) || value != std::floor(value))
    fields.fail(name, fmt::format("is {}, which counts from 1", value), kStudyRemedy);
  return static_cast<int64_t>(value);
}

Provenance provenance_of(const std::string& model) {
  Provenance p;
  p.tool_version = "the published training study";
  p.host = "unknown";  // not in the file
  p.device_kind = "cuda";
  p.facts = {{"tool", "published study"}, {"model_type", model}};
  return p;
}

/// Keeps the other series in their units (ms, MB, percent); no report shows them.
void add_other_series(Record& record, const Fields& run) {
  constexpr std::pair<const char*, const char*> kOthers[] = {
      {"memory_usage_mb", "MiB"}, {"gpu_utilization", "percent"}, {"communication_time_ms", "ms"}};
  for (const auto& [name, unit] : kOthers)
    if (run.has(name)) record.series.push_back({name, unit, {loose_number(run, name)}});
}

Record record_of(const Fields& batch, const Fields& run, bool multi) {
  Record record;
  record.kind = "study-run";
  record.provenance = provenance_of(batch.text("model_type"));
  record.axes = {{"num_parameters", loose_count(batch, "model_parameters")},
                 {"global_batch", loose_count(batch, "batch_size")},
                 {"devices", multi ? kStudyDevices : int64_t{1}},
                 {"run", run.integer("run")}};
  const double rate = loose_number(run, "samples_per_second");
  if (!(rate > 0)) run.fail("samples_per_second", fmt::format("is {}", rate), kStudyRemedy);
  record.series = {{"throughput", "samples/s", {rate}}};
  add_other_series(record, run);
  return record;
}

}  // namespace

Measurements read_published_study(const json& list, const std::string& origin) {
  Measurements found{"study", "the published training study", {}, {}, true};
  bool any_multi = false;
  for (size_t i = 0; i < list.size(); ++i) {
    const Fields batch(list[i], origin, fmt::format("[{}]", i), Cause::usage);
    const bool multi = batch.boolean("multi_gpu");
    any_multi = any_multi || multi;
    const json& runs = batch.array("detailed_runs");
    if (runs.empty()) batch.fail("detailed_runs", "is empty", "a run that measured something");
    for (size_t run = 0; run < runs.size(); ++run) {
      Record record = record_of(batch, batch.element(runs, "detailed_runs", run), multi);
      record.source = fmt::format("{}: [{}].detailed_runs[{}]", origin, i, run);
      add_record(found, std::move(record), origin);
    }
  }
  if (found.records.empty())
    throw Error(Cause::usage, fmt::format("{}: an empty list holds no measurement", origin), kStudyRemedy);
  found.notes.push_back(fmt::format(
      "{}: its 95 % intervals are percentiles of the runs, a spread; intervals here come from its runs", origin));
  if (any_multi)
    found.notes.push_back(
        fmt::format("{}: it says several GPUs and not how many: {} are assumed, as the study had. As published, its "
                    "code counts the "
                    "samples of one of them, which makes its rates too low by that factor if it ran so",
                    origin, kStudyDevices));
  return found;
}

}  // namespace amdahl
