// The verbs of amdahl. Each takes and returns plain data, prints nothing and does not read the process environment: its
// inputs are in its configuration, and it reports progress to an Observer.
//
// Example:
//   amdahl::StudyConfig config;
//   config.engine.backend = "cpu";
//   config.output_dir = "runs/study";
//   amdahl::Observer quiet;
//   std::puts(to_text(amdahl::run_study(config, quiet)).c_str());
//
// Errors: every verb throws Error. Error{usage} for a configuration that is invalid or contradicts itself,
// Error{environment_missing} for hardware or a library that is not present, Error{interrupted} when
// Observer::cancelled() returned true. A verb that reads a run folder throws Error{store_corrupt} for damaged files and
// Error{version_refused} for an unknown schema version. A verb that writes throws Error{usage} for a path that cannot
// be written and Error{disk_full}. Verbs that run ranks throw the causes of rank, device and memory failures as well.
//
// Threads: a verb that measures must not run beside another one, because they would disturb each other's times.
// Configurations and outcomes are not synchronized.
#pragma once

#include "amdahl/bench.h"
#include "amdahl/comparison.h"
#include "amdahl/error.h"
#include "amdahl/fabric.h"
#include "amdahl/machine.h"
#include "amdahl/plan.h"
#include "amdahl/planner.h"
#include "amdahl/record.h"
#include "amdahl/report.h"
#include "amdahl/sensor.h"
#include "amdahl/study.h"
#include "amdahl/summary.h"
#include "amdahl/tensor.h"
#include "amdahl/training.h"
