// Traced steps of a study: selects them and writes the trace files.
#pragma once

#include <filesystem>
#include <string>

#include "amdahl/study.h"
#include "measure/study/runner.h"

namespace amdahl {

/// The cell and steps that `config.trace` selects, without a sink; nullopt when tracing is off. Error{usage} for steps
/// beyond the end of a run, cells that are not in the study, and file names that no viewer opens.
std::optional<TraceRequest> plan_trace(const StudyConfig& config, const StudySettings& settings);

/// "steps 10 to 12 of ddp n=2 b=64 are traced ...", for the study's plan.
std::string trace_note(const TraceRequest& request);

/// Error{usage} when the Chrome Trace could not be written; to be called before measuring.
void require_trace_place(const StudyConfig& config);

/// Writes trace.json to the run folder, and the Chrome Trace if the configuration asks for it.
void write_trace(StepTrace trace, const StudyConfig& config, Observer& observer);

}  // namespace amdahl
