// Sensor runs on one device, on several and on unlike ones, against each other and against their price.
#pragma once

#include <string>
#include <vector>

#include "amdahl/prices.h"
#include "amdahl/sensor_comparison.h"
#include "stats/bootstrap.h"

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
  bool allow_unlike = false;  // CPU virtual devices beside GPUs
  BootstrapOptions bootstrap{};
};

/// Of `single`, what ran on one device; of `multi`, on several; of `hetero`, in mode hetero; the rest is named in
/// notes. Speedups are tested as compare_runs does, Holm-adjusted over all rows. Throws Error{usage} for a side without
/// a result, for sides without a common workload and for device kinds that differ and may not, and Error{store_corrupt}
/// for a record that lacks an axis or a series.
SensorComparison compare_sensors(const SensorSides& sides, const SensorCompareOptions& options = {});

/// A table a workload, its recommendation, the fastest and the cheapest; notes. Markdown has the same tables.
std::string sensor_compare_text(const SensorComparison& comparison);
std::string sensor_compare_markdown(const SensorComparison& comparison);

}  // namespace amdahl
