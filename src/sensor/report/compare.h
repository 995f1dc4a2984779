// Compares sensor runs on one device, on several and on heterogeneous devices, including their prices.
#pragma once

#include <string>
#include <vector>

#include "amdahl/comparison.h"
#include "amdahl/report.h"
#include "report/page/page.h"

namespace amdahl {

/// A file or folder of sensor records.
struct SensorRun {
  std::string name;
  std::vector<Record> records;
};

struct SensorSides {
  std::vector<SensorRun> single, multi, hetero;
};

struct SensorCompareOptions {
  std::optional<PriceTable> prices;
  bool allow_unlike = false;  // allow comparing CPU virtual devices with GPUs
};

/// Uses the records of `single` on one device, of `multi` on several devices, and of `hetero` in mode hetero; notes
/// name the rest. Speedups are tested like compare_runs, Holm-adjusted over all rows. Throws Error{usage} for a side
/// without a result, for sides without a common workload and for different device kinds unless allowed;
/// Error{store_corrupt} for a record that lacks an axis or a series.
SensorComparison compare_sensors(const SensorSides& sides, const SensorCompareOptions& options = {});

/// One section per workload: its recommendation, the fastest and the cheapest, charts and the table of results. `json`:
/// the comparison, kept in the page.
Page sensor_compare_page(const SensorComparison& comparison, const std::string& json = "");

}  // namespace amdahl
