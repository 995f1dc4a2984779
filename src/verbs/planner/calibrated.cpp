#include "verbs/planner/calibrated.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "amdahl/error.h"
#include "files/whole_file.h"
#include "planner/rank.h"
#include "report/plan/text.h"
#include "spec/calibration_json.h"
#include "spec/json.h"

namespace amdahl {
namespace {

bool has_device(const MachineSpec& machine, const std::string& name) {
  return std::any_of(machine.devices.begin(), machine.devices.end(),
                     [&](const DeviceSpec& device) { return device.name == name; });
}

// Constants of GPUs were fitted to counts that have changed: before waits between streams were counted, a launch took
// their time.
bool is_outdated(const Calibration& calibration) {
  return calibration.device_kind == "cuda" && calibration.software == "amdahl" && !calibration.find("event_us");
}

// The calibration to plan with: that of the wanted math, or the fastest.
Calibration choose(const std::vector<Calibration>& calibrations, const std::string& path, const std::string& math) {
  const Calibration* best = nullptr;
  std::vector<std::string> maths;
  for (const Calibration& one : calibrations) {
    maths.push_back(one.math);
    if (!math.empty() && one.math != math) continue;
    const CalibrationConstant* rate = one.find("gemm_tflops");
    const CalibrationConstant* best_rate = best ? best->find("gemm_tflops") : nullptr;
    if (!best || (rate && best_rate && rate->value > best_rate->value)) best = &one;
  }
  if (best) return *best;
  throw Error(Cause::usage, fmt::format("{} has no calibration of math {}", path, math),
              fmt::format("one of {}", fmt::join(maths, ", ")));
}

}  // namespace

CalibratedMachine load_calibrated(const std::string& path, const std::string& math) {
  const std::string text = read_file(path, Cause::usage);
  CalibratedMachine found{machine_from_json(text, path), {}};
  const std::vector<Calibration> calibrations = calibrations_from_json(text, path);
  if (calibrations.empty())
    throw Error(Cause::usage, fmt::format("{} has no calibration", path),
                named(fmt::format("`calibrate machine={}` on that machine", path)));
  found.calibration = choose(calibrations, path, math);
  const Calibration& one = found.calibration;
  const bool same_device = one.device_kind == "cpu-virtual" ? found.machine.cpu_name == one.device_name
                                                            : has_device(found.machine, one.device_name);
  if (one.host != found.machine.host || !same_device)
    throw Error(Cause::usage,
                fmt::format("{} describes {} and its calibration is of {} on {}: another machine", path,
                            printable(found.machine.host), printable(one.device_name), printable(one.host)),
                named(fmt::format("`calibrate machine={}` on this machine", path)));
  if (is_outdated(one))
    throw Error(Cause::usage,
                fmt::format("the calibration in {} is of an earlier version, which counted other kernels", path),
                named(fmt::format("`calibrate machine={}`", path)));
  return found;
}

std::optional<Calibration> find_calibration(const std::string& path, const std::string& device_kind,
                                            const std::string& math) {
  if (path.empty()) return std::nullopt;
  for (const Calibration& one : calibrations_from_json(read_file(path, Cause::usage), path))
    if (one.device_kind == device_kind && one.math == math && !is_outdated(one))
      return load_calibrated(path, math).calibration;
  return std::nullopt;
}

std::string thresholds_line(const std::optional<Calibration>& calibration, const std::vector<int64_t>& batches) {
  const std::vector<int> devices{2, 4, 8};
  if (!calibration)
    return named("from which size on 2, 4 and 8 devices pay: ``calibrate machine=FILE``, then a study with `machine`");
  return thresholds_line_text(find_thresholds(*calibration, devices, batches), *calibration);
}

}  // namespace amdahl
