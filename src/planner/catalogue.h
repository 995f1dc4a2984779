// What is assumed of hardware that was not measured: kinds of links, with the source of each figure, and the rates of
// kinds of GPUs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "amdahl/machine.h"
#include "plan/gpu_kinds.h"
#include "planner/rates.h"

namespace amdahl {

/// A kind of link between devices. Everything computed from it is `assumed`.
struct LinkKind {
  std::string_view name;
  double gbps = 0;        // one direction per device while it also receives, as collectives use it
  double total_gbps = 0;  // of all devices together where they share a path; 0: none
  double alpha_us = 0;    // of a collective of two devices
  double hop_us = 0;      // more per further step of the ring
  std::string_view source;
};
const std::vector<LinkKind>& link_kinds();
/// Error{usage} with the nearest name and the list.
const LinkKind& find_link_kind(std::string_view name);
/// The rates with those of all axes replaced by this link's.
Rates with_link(Rates rates, const LinkKind& link);

const GpuKind& find_gpu_kind(std::string_view name);

/// Rates of a GPU that was not measured: parts of the data sheet that this program reaches on an H200.
Rates rates_of_kind(const GpuKind& gpu, std::string_view math);

}  // namespace amdahl
