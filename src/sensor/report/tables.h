// The tables of a sensor benchmark: one per operation and mode, one per work that was divided.
#pragma once

#include <vector>

#include "amdahl/record.h"
#include "report/page/page.h"

namespace amdahl {

/// Times, rates and speedups of records whose devices all do the same work.
std::vector<PageTable> sensor_tables(const std::vector<Record>& records);

/// Modes that divide different work among devices (task, pipeline, hetero): tasks, methods and schedules.
PageSection divided_work_section(const std::vector<Record>& records);

}  // namespace amdahl
