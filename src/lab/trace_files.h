// The traced steps of a study: which they are, and the files they become.
#pragma once

#include <filesystem>
#include <string>

#include "amdahl/amdahl.h"
#include "measure/study/runner.h"

namespace amdahl {

/// The cell and steps that `config.trace` asks for, without a sink; nothing when it asks for none. Error{usage} for
/// steps beyond a run, cells that the study does not have, and names of files that no viewer would open.
std::optional<TraceRequest> plan_trace(const StudyConfig& config, const StudySettings& settings);

/// "steps 10 to 12 of ddp n=2 b=64 are traced ...", for the study's plan.
std::string trace_note(const TraceRequest& request);

/// Before hours of measurement: Error{usage} when the Chrome Trace could not be written.
void require_trace_place(const StudyConfig& config);

/// trace.json of the run folder, and the Chrome Trace where the configuration wants it.
void write_trace(StepTrace trace, const StudyConfig& config, Observer& observer);

}  // namespace amdahl
