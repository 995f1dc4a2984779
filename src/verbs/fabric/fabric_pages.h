// Pages of all kinds of run except studies; one page per run folder.
#pragma once

#include <vector>

#include "verbs/report/report_pages.h"

namespace amdahl {

std::vector<Page> links_pages(const std::vector<const PageRun*>& runs);
std::vector<Page> collectives_pages(const std::vector<const PageRun*>& runs);
std::vector<Page> arena_pages(const std::vector<const PageRun*>& runs);
std::vector<Page> onesided_pages(const std::vector<const PageRun*>& runs);
std::vector<Page> training_pages(const std::vector<const PageRun*>& runs);
std::vector<Page> verification_pages(const std::vector<const PageRun*>& runs);
std::vector<Page> bench_pages(const std::vector<const PageRun*>& runs);
std::vector<Page> sensor_pages(const std::vector<const PageRun*>& runs);
/// Reads doctor.json next to the records; without it, a note says that the findings are unknown.
std::vector<Page> doctor_pages(const std::vector<const PageRun*>& runs);

}  // namespace amdahl
