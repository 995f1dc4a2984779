// Compare of sensor runs on one device, on several and on heterogeneous devices, with their cost.
#include <fmt/format.h>

#include "amdahl/amdahl.h"
#include "amdahl/comparison.h"
#include "amdahl/error.h"
#include "amdahl/report.h"
#include "files/whole_file.h"
#include "report/page/html_page.h"
#include "sensor/report/compare.h"
#include "spec/measurements.h"
#include "spec/toml_files.h"

namespace amdahl {
namespace {

std::vector<SensorRun> read_side(const std::vector<std::string>& paths, std::vector<std::string>& notes) {
  std::vector<SensorRun> runs;
  for (const std::string& path : paths) {
    Measurements found = read_measurements(path);
    if (found.kind != "sensor")
      throw Error(Cause::usage,
                  fmt::format("{} is a {} run by {}, not one of sensors", path, printable(found.kind, 40), found.tool),
                  "the JSON or run folder of amdahl sensor bench; amdahl compare A B takes two runs of other kinds");
    runs.push_back({path, std::move(found.records)});
    notes.insert(notes.end(), found.notes.begin(), found.notes.end());
  }
  return runs;
}

}  // namespace

SensorCompareOutcome run_sensor_compare(const SensorCompareConfig& config) {
  SensorCompareOptions options;
  options.allow_unlike = config.allow_unlike;
  if (!config.prices.empty()) options.prices = load_prices(config.prices);
  std::vector<std::string> notes;
  SensorSides sides;
  sides.single = read_side(config.single, notes);
  sides.multi = read_side(config.multi, notes);
  sides.hetero = read_side(config.hetero, notes);
  SensorCompareOutcome outcome;
  outcome.comparison = compare_sensors(sides, options);
  outcome.comparison.notes.insert(outcome.comparison.notes.begin(), notes.begin(), notes.end());
  if (!config.html.empty())
    save_text(config.html, html_page(sensor_compare_page(outcome.comparison, to_json(outcome)), html_assets()));
  return outcome;
}

}  // namespace amdahl
