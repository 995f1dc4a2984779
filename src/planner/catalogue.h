// What is assumed of hardware that was not measured: kinds of links and of GPUs, with the source of each figure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "amdahl/machine.h"
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

const std::vector<GpuKind>& gpu_kinds();
const GpuKind& find_gpu_kind(std::string_view name);
/// The kind whose name is part of a device's name, as "H200" in "NVIDIA H200"; null: none.
const GpuKind* gpu_kind_of(std::string_view device_name);
/// Dense matrix products of a math mode.
double tflops_of(const GpuKind& gpu, std::string_view math);

/// Rates of a GPU that was not measured: parts of the data sheet that this program reaches on an H200.
Rates rates_of_kind(const GpuKind& gpu, std::string_view math);

}  // namespace amdahl
