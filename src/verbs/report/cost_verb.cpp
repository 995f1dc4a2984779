// Cost of measured work, from run folders or their JSON and a price table.
#include <fmt/format.h>

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
  for (size_t i = 0; i < config.runs.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      if (config.runs[j] == config.runs[i])
        throw Error(Cause::usage, fmt::format("{} is there twice", config.runs[i]), "each run once");
    runs.push_back(read_cost_run(config.runs[i], notes));
  }
  CostOutcome outcome;
  outcome.report = summarise_cost(runs, prices);
  outcome.report.notes.insert(outcome.report.notes.begin(), notes.begin(), notes.end());
  if (!config.html.empty())
    save_text(config.html, html_page(cost_page(outcome.report, to_json(outcome)), html_assets()));
  return outcome;
}

}  // namespace amdahl
