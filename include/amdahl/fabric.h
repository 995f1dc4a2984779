// The fabric: what the devices of a machine are to each other. Configuration and outcome of the verb topo.
#pragma once

#include <string>

#include "amdahl/machine.h"

namespace amdahl {

struct TopoConfig {
  int virtual_devices = 0;     // describe this many CPU virtual devices instead of GPUs; 0: GPUs, or 2 without any
  std::string sysfs = "/sys";  // where the kernel shows its devices; a copy of another machine's works too
};

struct TopoOutcome {
  MachineSpec machine;
  std::string matrix;  // in the letters of nvidia-smi, with a legend of what occurs
  std::string json;    // docs/schema/machine.schema.json
  std::string dot;     // Graphviz
  std::string svg;
};

}  // namespace amdahl
