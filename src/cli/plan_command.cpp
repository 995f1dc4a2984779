// `amdahl plan`: options and output.
#include <cstdio>
#include <memory>

#include "amdahl/planner.h"
#include "cli/option_values.h"
#include "cli/output.h"

namespace amdahl::cli {
namespace {

struct PlanArgs {
  PlannerValidationConfig validation;
  Talk talk;
};

int validate_command(const PlanArgs& args) {
  const PlanValidation validation = run_planner_validation(args.validation);
  if (args.talk.json)
    fmt::print("{}\n", to_json(validation));
  else
    show(stdout, to_text(validation));
  return 0;
}

}  // namespace

Command define_plan(CLI::App& app) {
  auto args = std::make_shared<PlanArgs>();
  CLI::App* plan = app.add_subcommand("plan", "Predict the step of plans of parallelism and rank them");
  plan->footer("examples:\n  amdahl plan --validate tests/data/planner/measured_a100.csv");
  plan->add_option("--validate", args->validation.iterations,
                   "Fit to a CSV of measured iterations and predict what is left out");
  plan->add_option("--and-predict", args->validation.also,
                   "With --validate: a further CSV, which takes part in no fit");
  add_talk(plan, args->talk);
  offer_files(plan, {"--validate", "--and-predict"});
  return {plan, [args](const std::string&) {
            if (args->validation.iterations.empty())
              throw Error(Cause::usage, "plan needs --validate", "--validate FILE.csv");
            return validate_command(*args);
          }};
}

}  // namespace amdahl::cli
