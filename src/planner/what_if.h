// Assumptions about a machine: "gpus=8,link=pcie5,gpu=a100,memory-gb=40", where the GPU may be a file, "gpu=new.toml",
// and about several alike: "nodes=8,network=net400", of which a node has an adapter for each GPU, or
// "network=4xnet200".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "amdahl/planner.h"
#include "planner/catalogue.h"

namespace amdahl {

struct WhatIf {
  int gpus = 0;  // of all nodes; 0: not assumed
  int nodes = 0;
  const LinkKind* network = nullptr;  // between nodes
  int adapters = 0;                   // of a node; 0: one for each GPU
  const LinkKind* link = nullptr;
  std::optional<GpuKind> gpu;
  std::string gpu_file;  // TOML file of the GPU, which the caller reads into `gpu` (load_gpu_kind); empty: none
  double memory_gb = 0;
};

/// `node_gpus`: those of a node where the text has nodes and no number of GPUs. Error{usage} for an unknown or repeated
/// word, a value out of range, a link between one device, nodes without a network, and GPUs that nodes do not divide.
WhatIf parse_what_if(std::string_view text, int node_gpus = 8);

/// The calibration under these assumptions; changed constants become `assumed`. Another GPU scales what was measured by
/// the ratio of data sheets. Error{usage} when that needs a calibration of a known kind of GPU, and for a link that
/// such GPUs do not have.
Calibration assume(const Calibration& calibration, const WhatIf& what_if);
/// A calibration by data sheet alone.
Calibration assume(const WhatIf& what_if, std::string_view math);

}  // namespace amdahl
