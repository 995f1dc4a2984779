// The page of a sensor benchmark.
#pragma once

#include <string>
#include <vector>

#include "amdahl/record.h"
#include "amdahl/sensor.h"
#include "report/page/page.h"

namespace amdahl {

Page sensor_page(const std::vector<Record>& records);

std::string voxelize_text(const VoxelizeOutcome& outcome);
std::string timeline_text(const TimelineOutcome& outcome);

/// Times, rates and speedups of records whose devices all do the same work.
std::vector<PageTable> sensor_tables(const std::vector<Record>& records);

/// Modes that divide different work among devices (task, pipeline, hetero): tasks, methods and schedules.
PageSection divided_work_section(const std::vector<Record>& records);

}  // namespace amdahl
