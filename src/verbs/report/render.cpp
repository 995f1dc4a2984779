// The public to_text, to_json, ... of each outcome, implemented with the functions of report and spec.
#include "amdahl/comparison.h"
#include "amdahl/fabric.h"
#include "amdahl/report.h"
#include "amdahl/sensor.h"
#include "amdahl/study.h"
#include "cost/cost.h"
#include "report/common/process_spread.h"
#include "report/compare/compare.h"
#include "report/compare/tables.h"
#include "report/fabric/arena.h"
#include "report/fabric/collectives.h"
#include "report/fabric/drawings.h"
#include "report/fabric/pages.h"
#include "report/fabric/topology.h"
#include "report/page/markdown_page.h"
#include "report/page/text_page.h"
#include "report/study/page.h"
#include "sensor/report/compare.h"
#include "sensor/report/page.h"
#include "spec/json.h"

namespace amdahl {

std::string to_text(const StudyOutcome& outcome, int width) {
  return text_page(study_page(outcome.summary, {}), {width}) +
         (outcome.thresholds.empty() ? "" : outcome.thresholds + "\n");
}
std::string to_json(const StudyOutcome& outcome) { return summary_to_json(outcome.summary); }

std::string to_json(const TrainOutcome& outcome) {
  return outcome.records.empty() ? std::string() : record_to_json(outcome.records.back());
}

std::string to_json(const Advice& advice) { return advice_to_json(advice); }

std::string to_text(const OutlookOutcome& outcome) { return outlook_text(outcome.outlook); }
std::string to_json(const OutlookOutcome& outcome) { return outlook_to_json(outcome.outlook); }

std::string to_text(const CompareOutcome& outcome, int width) {
  return text_page(compare_page(outcome.comparison, ""), {width});
}
std::string to_markdown(const CompareOutcome& outcome) { return markdown_page(compare_page(outcome.comparison, "")); }
std::string to_json(const CompareOutcome& outcome) {
  return comparison_to_json(outcome.comparison, comparison_verdict(outcome.comparison));
}

std::string to_text(const CalibrateOutcome& outcome) { return calibration_text(outcome.spreads, outcome.machine_file); }
std::string to_json(const CalibrateOutcome& outcome) { return machine_to_json(outcome.machine); }

std::string to_text(const CostOutcome& outcome, int width) { return text_page(cost_page(outcome.report, ""), {width}); }
std::string to_markdown(const CostOutcome& outcome) { return markdown_page(cost_page(outcome.report, "")); }
std::string to_json(const CostOutcome& outcome) { return cost_to_json(outcome.report, cost_verdict(outcome.report)); }

std::string to_text(const SensorCompareOutcome& outcome, int width) {
  return text_page(sensor_compare_page(outcome.comparison), {width});
}
std::string to_markdown(const SensorCompareOutcome& outcome) {
  return markdown_page(sensor_compare_page(outcome.comparison));
}
std::string to_json(const SensorCompareOutcome& outcome) { return sensor_comparison_to_json(outcome.comparison); }

std::string to_text(const TopoOutcome& outcome) { return topology_matrix(outcome.machine); }
std::string to_json(const TopoOutcome& outcome) { return machine_to_json(outcome.machine); }
std::string to_dot(const TopoOutcome& outcome) { return topology_dot(outcome.machine); }
std::string to_svg(const TopoOutcome& outcome) { return topology_svg(outcome.machine); }

std::string to_text(const LinksOutcome& outcome, int width) {
  return text_page(links_page(pooled_processes(outcome.records), outcome.machine, outcome.slow, 0), {width});
}
std::string to_json(const LinksOutcome& outcome) { return links_to_json(outcome.machine, outcome.records); }
std::string to_svg(const LinksOutcome& outcome) { return links_heat_map(outcome.machine); }

std::string to_text(const CollectivesOutcome& outcome, int width) {
  return text_page(collectives_page(pooled_processes(outcome.records)), {width});
}
std::string to_nccl_tests(const CollectivesOutcome& outcome) {
  return collectives_nccl_tests(pooled_processes(outcome.records));
}
std::string to_json(const CollectivesOutcome& outcome) { return records_to_json(outcome.records); }
std::string to_svg(const CollectivesOutcome& outcome) { return collectives_curves(pooled_processes(outcome.records)); }

std::string to_text(const DoctorOutcome& outcome, int width) { return text_page(doctor_page(outcome, true), {width}); }
std::string to_json(const DoctorOutcome& outcome) { return doctor_to_json(outcome); }

std::string to_text(const ArenaOutcome& outcome, int width) { return text_page(arena_page(outcome.records), {width}); }
std::string to_json(const ArenaOutcome& outcome) { return records_to_json(outcome.records); }
std::string to_environment(const ArenaOutcome& outcome) { return arena_environment(outcome.records, outcome.settings); }

std::string to_text(const OneSidedOutcome& outcome, int width) {
  return text_page(onesided_page(outcome.records), {width});
}
std::string to_json(const OneSidedOutcome& outcome) { return records_to_json(outcome.records); }
std::string to_choice_json(const OneSidedOutcome& outcome) { return choices_to_json(outcome.choices); }

std::string to_text(const SensorBenchOutcome& outcome, int width) {
  return text_page(sensor_page(pooled_processes(outcome.records)), {width});
}
std::string to_json(const SensorBenchOutcome& outcome) { return records_to_json(outcome.records); }

std::string to_text(const VoxelizeOutcome& outcome) { return voxelize_text(outcome); }
std::string to_json(const VoxelizeOutcome& outcome) { return voxelize_to_json(outcome); }
std::string to_text(const TimelineOutcome& outcome) { return timeline_text(outcome); }
std::string to_json(const TimelineOutcome& outcome) { return timeline_to_json(outcome); }

}  // namespace amdahl
