// What the verbs that measure the fabric share of their settings.
#pragma once

#include "amdahl/machine.h"

namespace amdahl {

/// Settings of the devices, from those of a run of links, collectives or one-sided operations.
template <class Config>
EngineConfig engine_of(const Config& config) {
  EngineConfig engine;
  engine.backend = config.backend;
  engine.gpus = config.gpus;
  engine.seed = config.seed;
  engine.timeout_seconds = config.timeout_seconds;
  engine.environment = config.environment;
  engine.command_line = config.command_line;
  engine.on_fatal = config.on_fatal;
  return engine;
}

}  // namespace amdahl
