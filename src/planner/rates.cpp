// The table of constants. Priors are data-sheet values or what was seen on other machines, so that a fit to few steps
// stays near what is physically possible.
#include "planner/rates.h"

#include <fmt/format.h>

#include "amdahl/error.h"

namespace amdahl {

const std::vector<RateField>& rate_fields() {
  static const std::vector<RateField> fields{
      {"gemm_tflops", "TFLOP/s", "matrix products of many waves", &Rates::gemm_tflops, 0.15, 1},
      {"gemm_half_waves", "waves", "waves at which a product reaches half of that rate", &Rates::gemm_half_waves, 0.5,
       1},
      {"batched_gemm_tflops", "TFLOP/s", "attention's products", &Rates::batched_gemm_tflops, 0.4, 0.7},
      {"unaligned_gemm", "1", "part of the rate with a vocabulary that is not padded", &Rates::unaligned_gemm, 0.3, 0},
      {"converting_gemm", "1", "part of the rate of products that round f32 operands to 16 bits",
       &Rates::converting_gemm, 0, 0.3},
      {"gemm_gbps", "GB/s", "operands and results of matrix products; 0: no time", &Rates::gemm_gbps, 0, 0.7},
      {"few_row_ns", "ns", "each row in a kernel for few rows", &Rates::few_row_ns, 0, 0.5},
      {"recurrent_us", "us", "step of a kernel that runs a whole sequence", &Rates::recurrent_us, 0, 0.5},
      {"alias_ps", "ps", "more for each weight of a product whose rows of weights are 8 KiB apart", &Rates::alias_ps, 0,
       0.7},
      {"cache_mb", "MB", "cache for what a step touches; 0: not modelled", &Rates::cache_mb, 0, 0.4},
      {"spill", "1", "slowdown of weights in products that no cache holds", &Rates::spill, 0, 0.7},
      {"stream_spill", "1", "slowdown of other bytes and of updates that no cache holds", &Rates::stream_spill, 0, 0.5},
      {"memory_gbps", "GB/s", "element-wise kernels, bytes read plus written", &Rates::memory_gbps, 0.15, 0.7},
      {"optimizer_ps", "ps", "update of one parameter", &Rates::optimizer_ps, 0.3, 0.7},
      {"launch_us", "us", "host time per kernel", &Rates::launch_us, 1, 1},
      {"event_us", "us", "wait of one stream for another", &Rates::event_us, 0, 0.5},
      {"softmax_launch_us", "us", "host time per kernel of a softmax that is not fused", &Rates::softmax_launch_us, 0.3,
       0},
      {"head_us", "us", "host time of output layer and loss per micro-batch", &Rates::head_us, 0.7, 0.7},
      {"input_us", "us", "host time of the embedding per micro-batch", &Rates::input_us, 0.7, 0.7},
      {"queue_exponent", "1", "how far host and device wait for each other; infinite: never", &Rates::queue_exponent,
       0.4, 0},
      {"collective_launch_us", "us", "host time per collective of the tensor axis", &Rates::collective_launch_us, 0.5,
       0},
      {"collective_wait_us", "us", "wait for the slowest host per collective and doubling of the group",
       &Rates::collective_wait_us, 0.7, 0},
      {"tp_alpha_us", "us", "latency of an all-reduce of activations", &Rates::tp_alpha_us, 0.7, 0.7},
      {"tp_gbps", "GB/s", "bus bandwidth of an all-reduce of activations", &Rates::tp_gbps, 0.3, 0.3},
      {"dp_alpha_us", "us", "latency of the all-reduce of gradients", &Rates::dp_alpha_us, 0.7, 1},
      {"dp_gbps", "GB/s", "bus bandwidth of the all-reduce of gradients", &Rates::dp_gbps, 0.3, 0.3},
      {"pp_alpha_us", "us", "latency of a transfer between stages", &Rates::pp_alpha_us, 0, 0.7},
      {"pp_gbps", "GB/s", "rate of a transfer between stages", &Rates::pp_gbps, 1, 0.5},
      {"hop_us", "us", "latency of each of the 2 (n - 1) steps of an all-reduce", &Rates::hop_us, 0, 0},
      {"ramp_us", "us", "more latency of an all-reduce of much more than 4 MB", &Rates::ramp_us, 0, 0.7},
      {"link_total_gbps", "GB/s", "rate of all devices together; 0: no common path", &Rates::link_total_gbps, 0, 0},
      {"node_devices", "1", "devices of a node; 0: all are in one", &Rates::node_devices, 0, 0},
      {"net_gbps", "GB/s", "network of a node, each direction, for all of its devices", &Rates::net_gbps, 0.3, 0},
      {"net_us", "us", "latency of a collective or transfer over nodes, more than within one", &Rates::net_us, 0, 0},
      {"step_us", "us", "host time of a step besides its layers", &Rates::step_us, 0, 1},
      {"interference", "1", "slowdown of backward by communication behind it", &Rates::interference, 0, 0.5},
      {"sharing", "1", "slowdown by each further device at work", &Rates::sharing, 0, 0.7},
      {"shared_cores", "1", "cores that virtual devices share; 0: devices have their own", &Rates::shared_cores, 0, 0},
      {"crowd_us", "us", "wait of a collective or transfer for each virtual device beyond the cores", &Rates::crowd_us,
       0, 1},
      {"gemm_units", "1", "multiprocessors, or cores", &Rates::gemm_units, 0, 0},
      {"gemm_tile", "1", "rows and columns of a tile of the output", &Rates::gemm_tile, 0, 0},
  };
  return fields;
}

namespace {

/// Times may be 0, and what a machine may lack: its default is 0, or its meaning says so.
bool may_be_zero(const RateField& field) {
  static const Rates defaults;
  const bool time = field.unit == "us" || field.unit == "ns" || field.unit == "ps";
  return time || defaults.*field.member == 0 || field.member == &Rates::interference;
}

/// A prediction divides by most constants, and products of several must stay within double's range.
void check_constant(const RateField& field, const CalibrationConstant& constant) {
  constexpr double kLeast = 1e-9, kMost = 1e12;
  const double value = constant.value;
  const bool zero = value == 0 && may_be_zero(field);
  if (zero || (value >= kLeast && value <= kMost)) return;
  throw Error(
      Cause::usage,
      fmt::format("constant '{}' of the calibration is {} {}: {}", field.name, value, field.unit, field.meaning),
      fmt::format("{}a number from {} to {}, as ``calibrate machine=FILE`` measures it",
                  may_be_zero(field) ? "0 or " : "", kLeast, kMost));
}

}  // namespace

Rates rates_of(const Calibration& calibration) {
  Rates rates;
  for (const CalibrationConstant& constant : calibration.constants) {
    const RateField* found = nullptr;
    std::vector<std::string> names;
    for (const RateField& field : rate_fields()) {
      names.emplace_back(field.name);
      if (field.name == constant.name) found = &field;
    }
    if (!found)
      throw Error(Cause::usage, fmt::format("unknown constant '{}' in the calibration", constant.name),
                  choices_hint(constant.name, names));
    check_constant(*found, constant);
    rates.*found->member = constant.value;
  }
  return rates;
}

Calibration calibration_of(const Rates& rates, ConstantOrigin origin, const std::string& source) {
  Calibration calibration;
  for (const RateField& field : rate_fields())
    calibration.constants.push_back({std::string(field.name), rates.*field.member, std::string(field.unit),
                                     field.prior_sd > 0 ? origin : ConstantOrigin::assumed,
                                     field.prior_sd > 0 ? source : std::string(field.meaning)});
  return calibration;
}

}  // namespace amdahl
