#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "amdahl/error.h"
#include "spec/json_fields.h"
#include "spec/rank_report.h"

namespace amdahl {
namespace {

constexpr int kReportVersion = 1;
constexpr double kPartsTolerance = 0.02;  // of the step
constexpr const char* kRemedy = "the package amdahl_lab of this version of amdahl";

/// 0 where it is absent.
double time_field(const Fields& fields, const char* name) {
  const double value = fields.number_or(name, 0);
  if (!(value >= 0) || !std::isfinite(value)) fields.fail(name, fmt::format("is {}, and no time", value), kRemedy);
  return value;
}

std::vector<double> numbers(const Fields& fields, const char* name) {
  std::vector<double> values;
  if (!fields.has(name)) return values;
  for (const nlohmann::json& value : fields.array(name)) {
    if (!value.is_number()) fields.fail(name, "holds something else than numbers", kRemedy);
    values.push_back(value.get<double>());
  }
  return values;
}

RankAccount read_account(const Fields& fields) {
  RankAccount account;
  account.steps = fields.natural_or("steps", 1);
  account.step_us = time_field(fields, "step_us");
  account.forward_us = time_field(fields, "forward_us");
  account.backward_us = time_field(fields, "backward_us");
  account.compute_us = time_field(fields, "compute_us");
  account.exposed_us = time_field(fields, "exposed_us");
  account.launch_gaps_us = time_field(fields, "launch_gaps_us");
  account.input_us = time_field(fields, "input_us");
  account.optimizer_us = time_field(fields, "optimizer_us");
  account.total_communication_us = time_field(fields, "total_communication_us");
  account.comm_bytes = time_field(fields, "comm_bytes");
  account.waits_us = numbers(fields, "waits_us");
  account.arrivals_us = numbers(fields, "arrivals_us");
  if (!(account.step_us > 0)) fields.fail("step_us", "is not positive", kRemedy);
  if (std::abs(account.parts_us() - account.step_us) > kPartsTolerance * account.step_us)
    fields.fail("step_us", fmt::format("is {:.1f}, and the parts sum to {:.1f}", account.step_us, account.parts_us()),
                kRemedy);
  return account;
}

}  // namespace

std::string rank_job_to_json(const RankJob& job) {
  return dump({{"schema", kReportVersion},
               {"steps", job.steps},
               {"warmup", job.warmup},
               {"account_steps", job.account_steps},
               {"wrap", job.wrap},
               {"global_batch", job.global_batch},
               {"result", job.result}},
              -1);
}

RankReport rank_report_from_json(std::string_view text, std::string_view origin) {
  const nlohmann::json document = parse_document(text, origin, Cause::data_corrupt);
  const Fields fields(document, std::string(origin), "", Cause::data_corrupt);
  if (fields.integer("schema") != kReportVersion)
    fields.fail("schema", fmt::format("is {}, not {}", fields.integer("schema"), kReportVersion), kRemedy);
  RankReport report;
  report.rank = fields.integer("rank");
  report.world_size = fields.integer("world_size");
  report.model = fields.text("model");
  report.num_parameters = fields.natural_or("num_parameters", 0);
  report.optimizer = fields.text("optimizer");
  report.math = fields.text("math");
  report.launch = fields.text("launch");
  report.samples = fields.natural_or("samples", 0, INT32_MAX);
  report.device = fields.text("device");
  report.device_name = fields.text("device_name");
  report.facts = fields.text_map("facts");
  report.window_us = time_field(fields, "window_us");
  report.steps = fields.natural_or("steps", 1);
  report.warmup = fields.natural_or("warmup", 0);
  report.loss_first = fields.maybe_number("loss_first");
  report.loss_last = fields.maybe_number("loss_last");
  report.memory_peak_bytes = fields.maybe_number("memory_peak_bytes");
  if (fields.has("account")) report.account = read_account(fields.object("account"));
  report.notes = fields.texts("notes");
  if (!(report.window_us > 0) || report.steps < 1) fields.fail("window_us", "is of no step", kRemedy);
  return report;
}

}  // namespace amdahl
