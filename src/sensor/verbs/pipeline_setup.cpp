#include "sensor/verbs/modes.h"

#include <fmt/format.h>

#include "sensor/measure/pipeline.h"
#include "sensor/verbs/bench_setup.h"
#include "setup/backends.h"
#include "setup/training_setup.h"

namespace amdahl {

void check_pipeline(const SensorBenchConfig& config) {
  for (const int64_t devices : config.devices)
    if (devices != 2)
      throw Error(Cause::usage, fmt::format("`devices` is {} and `mode=pipeline` has two stages", devices),
                  "`devices=2`; one device is measured beside it");
  if (sensor_operations(config).size() > 1 || config.op == "voxelize")
    throw Error(Cause::usage, fmt::format("`mode=pipeline` feeds a model with streams and `op` is {}", config.op),
                "`op=fuse` or resample");
  if (config.type != DType::f32)
    throw Error(Cause::usage, fmt::format("`type` is {} and the model reads f32", to_string(config.type)),
                "`type=f32`");
  if (config.cache != "hot")
    throw Error(Cause::usage, fmt::format("`cache` is {} and `mode=pipeline` keeps its buffers", config.cache),
                "`cache=hot`");
  choose_backend(config.engine, FleetNeeds::math);
  resolve_model(config.model);
}

std::vector<SensorStep> pipeline_steps(const SensorBenchConfig& config) {
  const ModelSpec like = resolve_model(config.model);
  std::vector<SensorStep> steps;
  for (const SensorJob& job : sensor_jobs(config)) {
    PipelinePlan plan;
    plan.job = job;
    plan.model = fit_to_data(like, {job.num_targets * job.fused_width()}, like.output_width(), like.loss);
    if (plan.model.input_width != like.input_width)  // its weights are other ones
      plan.model.name = fmt::format("{} for {} inputs", like.name, plan.model.input_width);
    plan.model.validate();
    plan.path = config.path;
    steps.push_back({fmt::format("{} into {}", workload_text(job), plan.model.name), 2,
                     [job](Fleet& fleet) { require_room(fleet, {job}, 2); },
                     [plan](Fleet& fleet, const SensorBenchSettings& settings) {
                       return measure_sensor_pipeline(fleet, plan, settings);
                     }});
  }
  return steps;
}

}  // namespace amdahl
