// Pages of every kind of run but studies: each run folder is a page of its own.
#pragma once

#include <vector>

#include "lab/report_pages.h"

namespace amdahl {

std::vector<Page> links_pages(const std::vector<const PageRun*>& runs);
std::vector<Page> collectives_pages(const std::vector<const PageRun*>& runs);
std::vector<Page> arena_pages(const std::vector<const PageRun*>& runs);
std::vector<Page> training_pages(const std::vector<const PageRun*>& runs);
std::vector<Page> sensor_pages(const std::vector<const PageRun*>& runs);
/// Reads doctor.json beside the records; without it, a note says that the findings are not known.
std::vector<Page> doctor_pages(const std::vector<const PageRun*>& runs);

}  // namespace amdahl
