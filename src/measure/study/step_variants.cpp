#include "measure/study/step_variants.h"

namespace amdahl {

StepWork local_step(const TrainingParts& parts) {
  const bool sends = parts.row.traffic_bytes(parts.options.plan, parts.options.model, parts.rank.rank) > 0;
  return sends ? kLocalStep : StepWork{};
}

int64_t messages_in_sequence(TrainingParts& parts) {
  StageRunner* const stages = parts.divided.stages();
  return stages ? stages->messages_per_round_trip() * parts.options.plan.accumulate : 0;
}

StampedTimes stamped_times(Trainer& trainer, const float* features, const float* targets, StepProbes& probes) {
  const StepStamps& stamps = probes.stamps;
  trainer.synchronize();
  trainer.launch(features, targets, {.stamps = &probes.stamps}, trainer.parts().options.launch);
  trainer.synchronize();
  StampedTimes times;
  for (const Span& span : stamps.stalls) times.stalls.push_back(stamps.us(span));
  for (const Span& span : stamps.collectives) times.collectives.push_back(stamps.us(span));
  return times;
}

StampedStages stamped_stages(Trainer& trainer, const float* features, const float* targets, StepProbes& probes) {
  const StepStamps& stamps = probes.stamps;
  trainer.synchronize();
  trainer.launch(features, targets, {.stamps = &probes.stamps, .stage_stamps = &probes.stage_stamps},
                 trainer.parts().options.launch);
  trainer.synchronize();
  StampedStages times;
  times.step = stamps.us(stamps.step);
  for (const Span& span : probes.stage_stamps.waits()) times.waits += stamps.us(span);
  for (const Span& span : stamps.stalls) times.stalls += stamps.us(span);
  for (const Span& span : stamps.updates) times.updates += stamps.us(span);
  for (const StageStamps::StampedAction& each : probes.stage_stamps.actions())
    times.actions.push_back({each.action.stage, each.action.kind, stamps.us(each.span)});
  return times;
}

void empty_step(Trainer& trainer, StepProbes& probes) {
  TrainingParts& parts = trainer.parts();
  if (!probes.empty)
    probes.empty = parts.rank.device.capture(*parts.compute, [&] {
      for (size_t i = trainer.graph_nodes(local_step(parts)); i > 0; --i)
        parts.rank.ops->elementwise().increment(*parts.compute, parts.model.step_counter());
    });
  probes.empty->launch(*parts.compute);
}

}  // namespace amdahl
