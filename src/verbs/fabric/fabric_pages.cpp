#include "verbs/fabric/fabric_pages.h"

#include "measure/links/machine.h"
#include "report/common/process_spread.h"
#include "report/compare/bench.h"
#include "report/fabric/pages.h"
#include "report/plan/measured_page.h"
#include "report/study/page.h"
#include "sensor/report/page.h"
#include "verbs/fabric/fabric_reports.h"

namespace amdahl {
namespace {

Page links_page_of(const PageRun& run) {
  std::vector<std::string> notes;
  MachineSpec machine = machine_of_run(run.folder, run.contents.records, notes);
  const std::vector<Record> records = pooled_processes(run.contents.records);
  note_links(machine, records);
  const double min_gbps = min_gbps_of(run.contents.header);
  Page page = links_page(records, machine, slow_links(machine, min_gbps), min_gbps);
  page.notes.insert(page.notes.end(), notes.begin(), notes.end());
  return page;
}

Page doctor_page_of(const PageRun& run) {
  const DoctorRun found = read_doctor_run(run.folder, run.contents.records);
  Page page = doctor_page(found.outcome, found.judged);
  page.notes.insert(page.notes.end(), found.notes.begin(), found.notes.end());
  return page;
}

template <class Function>
std::vector<Page> each(const std::vector<const PageRun*>& runs, Function&& page_of) {
  std::vector<Page> pages;
  for (const PageRun* run : runs) pages.push_back(page_of(*run));
  return pages;
}

}  // namespace

std::vector<Page> links_pages(const std::vector<const PageRun*>& runs) { return each(runs, links_page_of); }

std::vector<Page> collectives_pages(const std::vector<const PageRun*>& runs) {
  return each(runs, [](const PageRun& run) { return collectives_page(pooled_processes(run.contents.records)); });
}

std::vector<Page> arena_pages(const std::vector<const PageRun*>& runs) {
  return each(runs, [](const PageRun& run) { return arena_page(run.contents.records); });
}

std::vector<Page> training_pages(const std::vector<const PageRun*>& runs) {
  return each(runs, [](const PageRun& run) { return training_page(run.contents.records); });
}

std::vector<Page> verification_pages(const std::vector<const PageRun*>& runs) {
  return each(runs, [](const PageRun& run) { return verification_page(run.contents.records); });
}

std::vector<Page> bench_pages(const std::vector<const PageRun*>& runs) {
  return each(runs, [](const PageRun& run) { return bench_page(run.contents.records); });
}

std::vector<Page> sensor_pages(const std::vector<const PageRun*>& runs) {
  return each(runs, [](const PageRun& run) { return sensor_page(pooled_processes(run.contents.records)); });
}

std::vector<Page> onesided_pages(const std::vector<const PageRun*>& runs) {
  return each(runs, [](const PageRun& run) { return onesided_page(run.contents.records); });
}

std::vector<Page> doctor_pages(const std::vector<const PageRun*>& runs) { return each(runs, doctor_page_of); }

}  // namespace amdahl
