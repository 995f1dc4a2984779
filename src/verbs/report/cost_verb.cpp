// Cost of measured work, from run folders or their JSON and a price table.
#include <fmt/format.h>

#include <optional>
#include <set>

#include "amdahl/error.h"
#include "amdahl/report.h"
#include "cost/cost.h"
#include "report/page/html_page.h"
#include "report/study/summary.h"
#include "spec/measurements.h"
#include "spec/toml_files.h"

namespace amdahl {
namespace {

CostRun read_cost_run(const std::string& path, std::vector<std::string>& notes) {
  Measurements found = read_measurements(path);
  if (found.foreign || (found.kind != "study" && found.kind != "sensor"))
    throw Error(Cause::usage, fmt::format("{} is a {} run by {}", path, printable(found.kind, 40), found.tool),
                "runs of amdahl study or amdahl sensor bench");
  for (const std::string& note : found.notes) notes.push_back(fmt::format("{}: {}", path, note));
  CostRun run{path, std::nullopt, std::move(found.records)};
  if (found.kind == "sensor") return run;
  if (found.summary) {  // already summarised
    run.study = std::move(found.summary);
    run.records.clear();
  } else {
    run.study = summarise_study(run.records);
  }
  return run;
}

}  // namespace

CostOutcome run_cost(const CostConfig& config) {
  if (config.runs.empty())
    throw Error(Cause::usage, "cost needs a run", "run folders of amdahl study or amdahl sensor bench");
  const PriceTable prices = load_prices(config.prices);
  std::vector<CostRun> runs;
  std::vector<std::string> notes;
  std::set<std::string> seen;
  std::optional<Error> problem;
  for (const std::string& name : find_runs(config.runs)) {
    if (!seen.insert(name).second) throw Error(Cause::usage, fmt::format("{} is there twice", name), "each run once");
    try {
      runs.push_back(read_cost_run(name, notes));
    } catch (const Error& error) {
      if (error.cause() != Cause::usage) throw;
      if (!problem) problem = error;
      notes.push_back(fmt::format("left out: {}", error.what()));
    }
  }
  if (runs.empty()) throw *problem;
  CostOutcome outcome;
  outcome.report = summarise_cost(runs, prices);
  outcome.report.notes.insert(outcome.report.notes.begin(), notes.begin(), notes.end());
  if (!config.html.empty())
    save_text(config.html, html_page(cost_page(outcome.report, to_json(outcome)), html_assets()));
  return outcome;
}

}  // namespace amdahl
