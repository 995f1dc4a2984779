// Calibrations of machine files, for the verbs that predict.
#pragma once

#include <optional>
#include <string>

#include "amdahl/machine.h"
#include "amdahl/planner.h"

namespace amdahl {

struct CalibratedMachine {
  MachineSpec machine;
  Calibration calibration;
};

/// The calibration of a machine file: that of the math, or with an empty one the fastest. Error{usage} for a file
/// without one and for that of another machine.
CalibratedMachine load_calibrated(const std::string& path, const std::string& math);

/// The same for a kind of device ("cuda", "cpu-virtual"); nullopt when the path is empty or the file has no such
/// calibration.
std::optional<Calibration> find_calibration(const std::string& path, const std::string& device_kind,
                                            const std::string& math);

/// "From which size on 2, 4 and 8 devices pay": one line from a calibration, or what to do to get it.
std::string thresholds_line(const std::optional<Calibration>& calibration, const std::vector<int64_t>& batches);

}  // namespace amdahl
